"""The files that can be dumped, and the other files of their segments."""

from __future__ import annotations

import os
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.log.formats import filenames
from kqueue.log.formats.filenames import parse_file_name
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.tier_urls import is_url, open_partition_url
from kqueue.storage import File, LocalStorage, Storage

SUFFIXES = (filenames.LOG, filenames.INDEX, filenames.TIMEINDEX, filenames.TXNINDEX, filenames.SNAPSHOT)


class DumpFile:
    """A file to dump.

    `shown`: its name as the user gave it. `path`: absolute, links not resolved; of a file in a tier
    its path there.
    """

    def __init__(self, shown: str, storage: Storage | None = None, path: str = "") -> None:
        """Args: storage, path: where it is; None: a local file, whose path `shown` is."""
        self.shown = shown
        self._storage = storage
        # A Path would look through "..", and Kafka's tool does not.
        self.path = os.path.abspath(shown) if storage is None else path  # noqa: PTH100
        self.folder, self.name = os.path.split(self.path)

    @property
    def suffix(self) -> str:
        """The suffix of the name from its last dot on, which selects the dump."""
        return self.name[self.name.rfind(".") :] if "." in self.name else ""

    def open(self, suffix: str | None = None) -> File:
        """Open the file, or the one of the same segment with another suffix.

        Raises: FileNotFoundError, StorageFailed.
        """
        name = self.name if suffix is None else self.name.split(".")[0] + suffix
        if self._storage is not None:
            return self._storage.open(f"{self.folder}/{name}")
        path = Path(self.folder, name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        path = path.resolve()  # a named link means its target
        return LocalStorage(path.parent).open(path.name)

    def base_offset(self) -> int:
        """Return the offset at the beginning of the name. Raises: StorageFailed: there is none."""
        digits = self.name.split(".")[0]
        if not (digits.isascii() and digits.isdecimal()):
            raise StorageFailed(
                f"{self.shown}: expected a name that begins with an offset, such as 00000000000000000000{self.suffix}"
            )
        return int(digits)


def dump_files_in(folder: str) -> list[DumpFile]:
    """Return the files of a folder that can be dumped, sorted by name.

    Args: folder: of a partition, or the URL of one in a tier, or of a file below that.
    Raises: StorageFailed: the folder cannot be read. NotALogFolder: there is no such partition.
    """
    if is_url(folder):
        return _files_at(folder)
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise StorageFailed(f"can't list {folder}: {error.strerror}") from error
    files = [DumpFile(os.path.join(folder, name)) for name in names]  # noqa: PTH118  shown as it was given
    return [source for source in files if source.suffix in SUFFIXES and source.name.count(".") == 1]


def _files_at(url: str) -> list[DumpFile]:
    bare, mark, options = url.partition("?")
    above, _, last = bare.rpartition("/")
    only = last if parse_file_name(last) else None
    target = open_partition_url(url if only is None else above + mark + options)
    location = f"{target.storage.location}/{target.partition}"
    names = [entry.name for entry in target.storage.list(str(target.partition)) if only in (None, entry.name)]
    if not names:
        raise NotALogFolder(f"{location} has no file {only}")
    files = [DumpFile(f"{location}/{name}", target.storage, f"{target.partition}/{name}") for name in names]
    return [source for source in files if source.suffix in SUFFIXES]
