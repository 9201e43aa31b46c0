"""The manifest of a backup, `kqueue-backup.json`: what it holds, with the size of each file.

Logs are checked by the checksums of their batches; all other files by a SHA-256 in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from kqueue.base.errors import KqueueError
from kqueue.log.formats.filenames import LOG

MANIFEST = "kqueue-backup.json"
FORMAT = 1
FOLDERS = "folders"
STORE = "store"


class BackupRefused(KqueueError):
    """A backup can't be made, or can't be restored to this place. Nothing was changed."""


class BackupDamaged(KqueueError):
    """A backup is not complete, or a file of it is missing or differs."""


class FileEntry(NamedTuple):
    """A file. `path`: in the backup. `sha256`: None: a log, whose batches have checksums."""

    path: str
    size: int
    sha256: str | None


class FolderEntry(NamedTuple):
    """A data folder. `name`: below `folders`. `source`: where it was. `is_member`: of a cluster."""

    name: str
    source: str
    node_id: str
    cluster_id: str
    is_member: bool
    was_running: bool
    partitions: int


class Manifest(NamedTuple):
    """The contents of a backup.

    Attributes:
        created_ms: wall clock.
        release: version of kqueue.
        is_of_one_moment: no broker wrote while the logs' ends were noted, so all partitions are of
            one moment; else they are as of up to `window_ms` apart.
        store: path of the cluster's metadata store in the backup; None: it is not in it.
    """

    created_ms: int
    release: str
    is_of_one_moment: bool
    window_ms: float
    folders: tuple[FolderEntry, ...]
    store: str | None
    files: tuple[FileEntry, ...]

    @property
    def total_bytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)

    def as_json(self) -> dict[str, Any]:
        """Return the manifest for output, without its files."""
        values = self._asdict() | {"folders": [folder._asdict() for folder in self.folders]}
        del values["files"]
        return values | {"file_count": len(self.files), "total_bytes": self.total_bytes}

    def write(self, backup: Path) -> None:
        """Write the manifest, the last file. Durability: whole or missing, with all before it."""
        values = {
            "format": FORMAT,
            **self._asdict(),
            "folders": [folder._asdict() for folder in self.folders],
            "files": [list(file) for file in self.files],
        }
        temporary = backup / f"{MANIFEST}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(values, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(backup / MANIFEST)
        sync_folder(backup)


def read_manifest(backup: Path) -> Manifest:
    """Read the manifest. Raises: BackupDamaged: none, or of another format."""
    try:
        values = json.loads((backup / MANIFEST).read_text(encoding="utf-8"))
        format = values.pop("format")
        if format != FORMAT:
            raise BackupDamaged(f"{backup}: expected format {FORMAT}, found {format}; a newer kqueue made it")
        folders = tuple(FolderEntry(**folder) for folder in values.pop("folders"))
        files = tuple(FileEntry(str(path), int(size), sha256) for path, size, sha256 in values.pop("files"))
        for name in (*(folder.name for folder in folders), *(file.path for file in files)):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise BackupDamaged(f"{backup}: {MANIFEST} names {name!r}, which is not in the backup")
        return Manifest(**values, folders=folders, files=files)
    except FileNotFoundError:
        raise BackupDamaged(
            f"{backup} is no complete backup: it has no {MANIFEST}, which is written last; make another one"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BackupDamaged(f"{backup}: {MANIFEST} can't be read: {error!r}") from error


def entry_of(backup: Path, path: Path) -> FileEntry:
    """Return the entry of a file in the backup. Raises: OSError."""
    name = path.relative_to(backup).as_posix()
    if path.suffix == LOG:
        return FileEntry(name, path.stat().st_size, None)
    with path.open("rb") as file:
        return FileEntry(name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_empty(folder: Path, what: str) -> None:
    """Check that a folder is missing or empty. Raises: BackupRefused."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupRefused(f"{folder} is not empty: name a new or empty folder for the {what}")
