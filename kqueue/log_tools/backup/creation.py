"""Makes a backup of data folders, also of brokers that run.

1. The metadata store is copied by SQLite's own means. It comes first: the in-sync sets in it are
   then of replicas that hold, or will hold, all that was confirmed before.
2. The checkpoints are copied, before the logs: no recovery point lies beyond its log then.
3. The files of all partitions are noted with their sizes, twice. If nothing changed in between,
   they are of one moment. A busy broker gives no such moment; then each file is of its own, within
   the time that noting took. Topics of offsets and transactions are noted first.
4. The files are copied up to the noted sizes. What is appended meanwhile is left out. If a
   partition has changed otherwise (files deleted, compacted, cut), its files are noted again.
5. The block of producer ids is read again: logs may hold ids from a later block.
6. The manifest is written.

A folder whose broker is stopped is locked meanwhile, and its mark of a clean stop is copied too.
Hard links are made of sealed segments below the recovery point, and not of a cluster's member:
that may cut a sealed segment, and both names of a file would show it.

Durability: all files are synced before the manifest; a backup without one is not complete.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kqueue.base.clock import monotonic_s, wall_ms
from kqueue.base.errors import CorruptIndex, FolderInUse, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.base.version import __version__
from kqueue.log.folders.disk_space import EMERGENCY_FILE
from kqueue.log.folders.registration_mark import REGISTRATION_MARK
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Offsets,
    decode_offsets,
    decode_properties,
)
from kqueue.log.formats.filenames import CLEANED, DELETED, LOG, SWAP, parse_file_name
from kqueue.log.formats.moved_partitions import MOVED_PARTITIONS, decode_moved
from kqueue.log_tools.backup.file_copy import copy_file
from kqueue.log_tools.backup.manifest import (
    FOLDERS,
    STORE,
    BackupRefused,
    FileEntry,
    FolderEntry,
    Manifest,
    check_empty,
    entry_of,
    sync_folder,
)
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.metadata.sqlite import FILE_NAME, SIDE_FILE_SUFFIXES
from kqueue.metadata.sqlite_sessions import LOCK_FILE_SUFFIX
from kqueue.storage import LocalStorage

ATTEMPTS_MAX = 5
"""Times that a partition, or the moment of all, is noted again."""
PAUSE_S = 0.05
PRODUCER_IDS = "/producer_ids"
INTERNAL = "__"
_LEFT_OUT = {LOCK, EMERGENCY_FILE, REGISTRATION_MARK, CLEAN_SHUTDOWN, f"{FILE_NAME}{LOCK_FILE_SUFFIX}", FILE_NAME}
_LEFT_OUT |= {f"{FILE_NAME}{suffix}" for suffix in SIDE_FILE_SUFFIXES}
_TEMPORARY = (SWAP, CLEANED, DELETED, ".tmp")

Files = dict[str, int]
"""Size of each file of a partition, by name."""


@dataclass
class _Source:
    """A data folder to copy. `files`: of each partition's folder, as they were noted."""

    path: Path
    target: Path
    properties: dict[str, str]
    is_running: bool
    recovery_points: Offsets = field(default_factory=dict)
    files: dict[str, Files] = field(default_factory=dict)

    @property
    def is_member(self) -> bool:
        """Whether it is of a cluster's broker."""
        return (self.path / REGISTRATION_MARK).exists()


def create_backup(
    folders: Sequence[Path], to: Path, *, store: Path | None = None, progress: ProgressCallback | None = None
) -> Manifest:
    """Copy data folders, and the metadata store of a cluster, into the new or empty folder `to`.

    Args:
        folders: of one broker or of several, all on this machine.
        store: the SQLite file of `kqueue.cluster.store`; None: it is not copied, unless it is in a
            data folder.
        progress: receives the bytes that are done, and their total.
    Raises: BackupRefused: `to` is not empty, or a folder is no data folder. StorageFailed: a file
        can't be read or written; `to` is left without a manifest.
    """
    check_empty(to, "backup")
    with ExitStack() as stack, _failing():
        sources = _open_sources(folders, to, stack)
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        stores = [(source.path / FILE_NAME, source.target / FILE_NAME) for source in sources]
        if store is not None:
            if not store.is_file():
                raise BackupRefused(f"{store} is no file: name the SQLite file of kqueue.cluster.store")
            stores.append((store, to / STORE / store.name))
        stores = [(path, copy) for path, copy in stores if path.is_file()]
        for source in sources:
            source.target.mkdir(parents=True)
        for path, copy in stores:
            copy_store(path, copy)
        for source in sources:
            _copy_top(source)
        began = monotonic_s()
        is_of_one_moment = _note(sources)
        window_ms = 0.0 if is_of_one_moment else (monotonic_s() - began) * 1000
        meter = ProgressMeter(progress, sum(sum(files.values()) for one in sources for files in one.files.values()))
        for source in sources:
            for partition in sorted(source.files):
                _copy_partition(source, partition, meter)
            if not source.is_running and (source.path / CLEAN_SHUTDOWN).exists():
                _copy_small(source.path / CLEAN_SHUTDOWN, source.target / CLEAN_SHUTDOWN)
            sync_folder(source.target)
        for path, copy in stores:
            _renew_producer_ids(path, copy)
        meter.finish()
        entries = [entry_of(to, path) for path in sorted(to.rglob("*")) if path.is_file()]
        manifest = _manifest(sources, to, store, entries, is_of_one_moment, window_ms)
        manifest.write(to)
        return manifest


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, sqlite3.Error, CorruptIndex) as error:
        raise StorageFailed(f"the backup is not complete: {error}. Delete it, and make another one") from error


def _open_sources(folders: Sequence[Path], to: Path, stack: ExitStack) -> list[_Source]:
    sources: list[_Source] = []
    names: set[str] = set()
    for folder in folders:
        path = folder.resolve()
        if not (path / META_PROPERTIES).is_file():
            raise BackupRefused(f"{folder} is no data folder: it has no {META_PROPERTIES}")
        if to.resolve().is_relative_to(path):
            raise BackupRefused(f"{to} lies in {folder}: name a folder outside of the data folders")
        moved = path / MOVED_PARTITIONS
        if moved.exists() and decode_moved(moved.read_bytes()):
            raise BackupRefused(f"{folder}: logs are being moved between data folders; try again after that")
        name = path.name
        while name in names:
            name += "-"
        names.add(name)
        properties = decode_properties((path / META_PROPERTIES).read_bytes())
        try:
            lock = LocalStorage(path).lock(LOCK)
        except FolderInUse:
            is_running = True
        else:
            is_running = False
            stack.callback(lock.release)
        sources.append(_Source(path, to / FOLDERS / name, properties, is_running))
    return sources


def copy_store(path: Path, copy: Path) -> None:
    """Copy an SQLite store that may be in use, as of one commit. Raises: sqlite3.Error, OSError."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    target = sqlite3.connect(copy)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE").close()  # one file
    finally:
        source.close()
        target.close()
    _sync(copy)


def _renew_producer_ids(path: Path, copy: Path) -> None:
    source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    target = sqlite3.connect(copy)
    try:
        row = source.execute("SELECT value FROM entries WHERE key = ?", (PRODUCER_IDS,)).fetchone()
        if row is not None:
            kept = target.execute("SELECT max(version) FROM entries").fetchone()[0] or 0
            with target:
                target.execute(
                    "INSERT OR REPLACE INTO entries (key, value, version) VALUES (?, ?, ?)",
                    (PRODUCER_IDS, row[0], kept),
                )
    finally:
        source.close()
        target.close()
    _sync(copy)


def _copy_top(source: _Source) -> None:
    for path in sorted(source.path.iterdir()):
        if path.is_file() and path.name not in _LEFT_OUT and not path.name.endswith(_TEMPORARY):
            with contextlib.suppress(FileNotFoundError):
                _copy_small(path, source.target / path.name)
    points = source.target / RECOVERY_POINTS
    if points.exists() and points.stat().st_size:
        source.recovery_points = decode_offsets(points.read_bytes())


def _copy_small(path: Path, copy: Path) -> None:
    copy.write_bytes(path.read_bytes())
    _sync(copy)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


# --- what to copy


def _note(sources: Sequence[_Source]) -> bool:
    """Note the files of all partitions. Return whether they are of one moment."""
    for attempt in range(ATTEMPTS_MAX):
        noted = [_list_folder(source) for source in sources]
        again = [_list_folder(source) for source in sources]
        for source, files in zip(sources, noted, strict=True):
            source.files = files
        if noted == again or not any(source.is_running for source in sources):
            return True
        if attempt < ATTEMPTS_MAX - 1:
            time.sleep(PAUSE_S)
    return False


def _list_folder(source: _Source) -> dict[str, Files]:
    names = [path.name for path in source.path.iterdir() if path.is_dir() and parse_partition_folder(path.name)]
    names.sort(key=lambda name: (not name.startswith(INTERNAL), name))
    partitions = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # its topic was deleted
            partitions[name] = _list_partition(source.path / name)
    return partitions


def _list_partition(folder: Path) -> Files:
    """Return the files to copy. Raises: FileNotFoundError."""
    files = {}
    for path in folder.iterdir():
        if not path.name.endswith(_TEMPORARY):
            with contextlib.suppress(FileNotFoundError):
                files[path.name] = path.stat().st_size
    return files


def _is_swapping(folder: Path) -> bool:
    return any(path.name.endswith(SWAP) for path in folder.iterdir())


# --- copies


def _copy_partition(source: _Source, name: str, meter: ProgressMeter) -> None:
    folder, target = source.path / name, source.target / name
    for attempt in range(ATTEMPTS_MAX):
        files = source.files[name]
        done = meter.done
        try:
            if source.is_running and _is_swapping(folder):
                raise EOFError(f"{folder}: a compaction replaces segments")
            target.mkdir()
            _copy_files(source, name, files, meter)
            if not source.is_running or _is_prefix(files, _list_partition(folder)):
                sync_folder(target)
                return
        except (FileNotFoundError, EOFError):
            if not folder.exists():
                _discard(target)
                return  # its topic was deleted
        meter.add(done - meter.done)
        _discard(target)
        time.sleep(PAUSE_S * attempt)
        source.files[name] = _list_partition(folder)
    raise StorageFailed(f"{folder} changes faster than it is copied: make the backup while it is less busy")


def _copy_files(source: _Source, name: str, files: Files, meter: ProgressMeter) -> None:
    segments = sorted(parsed[0] for file in files if (parsed := parse_file_name(file)) and parsed[1] == LOG)
    flushed = source.recovery_points.get(parse_partition_folder(name) or ("", 0), 0)
    ends = dict(itertools.pairwise(segments))
    for file in sorted(files, key=lambda file: file.endswith(LOG)):  # indexes first: they are not ahead of their log
        parsed = parse_file_name(file)
        is_log = parsed is not None and parsed[1] == LOG
        end = ends.get(parsed[0]) if parsed is not None else None
        may_link = is_log and end is not None and end <= flushed and not source.is_member
        copy_file(source.path / name / file, source.target / name / file, files[file], may_link=may_link, add=meter.add)


def _is_prefix(noted: Files, now: Files) -> bool:
    """Whether a partition has only grown since its files were noted: no log is gone or shorter."""
    logs = {file: size for file, size in noted.items() if file.endswith(LOG)}
    sealed = sorted(logs)[:-1]
    return all(now.get(file) == logs[file] for file in sealed) and all(now.get(file, -1) >= logs[file] for file in logs)


def _discard(folder: Path) -> None:
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _manifest(
    sources: Sequence[_Source],
    to: Path,
    store: Path | None,
    entries: Sequence[FileEntry],
    is_of_one_moment: bool,
    window_ms: float,
) -> Manifest:
    folders = [
        FolderEntry(
            source.target.name,
            str(source.path),
            source.properties.get("node.id", source.properties.get("broker.id", "")),
            source.properties.get("cluster.id", ""),
            source.is_member,
            source.is_running,
            sum(path.is_dir() for path in source.target.iterdir()),
        )
        for source in sources
    ]
    clusters = {folder.cluster_id for folder in folders}
    if len(clusters) > 1:
        raise BackupRefused(f"the data folders are of clusters {', '.join(sorted(clusters))}: make a backup of each")
    in_backup = None if store is None else f"{STORE}/{store.name}"
    return Manifest(wall_ms(), __version__, is_of_one_moment, window_ms, tuple(folders), in_backup, tuple(entries))
