"""The files that can be dumped, and the other files of their segments."""

from __future__ import annotations

import os
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.log.formats import filenames
from kqueue.storage import File, LocalStorage

SUFFIXES = (filenames.LOG, filenames.INDEX, filenames.TIMEINDEX, filenames.TXNINDEX, filenames.SNAPSHOT)


class DumpFile:
    """A file to dump.

    `shown`: its name as the user gave it. `path`: absolute, links not resolved.
    """

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.path = os.path.abspath(shown)  # noqa: PTH100  a Path would look through "..", and Kafka's tool does not
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

    Raises: StorageFailed: the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise StorageFailed(f"can't list {folder}: {error.strerror}") from error
    files = [DumpFile(os.path.join(folder, name)) for name in names]  # noqa: PTH118  shown as it was given
    return [source for source in files if source.suffix in SUFFIXES and source.name.count(".") == 1]
