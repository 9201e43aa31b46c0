"""Which files can be dumped, by the end of their names, and the other files of the same segment."""

from __future__ import annotations

import os
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.log.formats import filenames
from kqueue.storage import File, LocalStorage

SUFFIXES = (filenames.LOG, filenames.INDEX, filenames.TIMEINDEX, filenames.TXNINDEX, filenames.SNAPSHOT)


class DumpFile:
    """A file to dump. `shown`: its name as the user gave it; `path`: absolute, without looking
    through links.
    """

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.path = os.path.abspath(shown)  # noqa: PTH100  a Path would look through "..", and Kafka's tool does not
        self.folder, self.name = os.path.split(self.path)

    @property
    def suffix(self) -> str:
        return self.name[self.name.rfind(".") :] if "." in self.name else ""

    def open(self, suffix: str | None = None) -> File:
        """The file itself, or the one of the same segment with another suffix. Raises
        FileNotFoundError, StorageFailed.
        """
        name = self.name if suffix is None else self.name.split(".")[0] + suffix
        path = Path(self.folder, name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        path = path.resolve()  # the user named it: what a link leads to is what he wants to see
        return LocalStorage(path.parent).open(path.name)

    def base_offset(self) -> int:
        """The offset that its name begins with. Raises StorageFailed: it does not."""
        digits = self.name.split(".")[0]
        if not (digits.isascii() and digits.isdecimal()):
            raise StorageFailed(
                f"{self.shown}: expected a name that begins with an offset, such as 00000000000000000000{self.suffix}"
            )
        return int(digits)


def dump_files_in(folder: str) -> list[DumpFile]:
    """The files in a folder that can be dumped, sorted by name. Raises StorageFailed: it can't be
    read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise StorageFailed(f"can't list {folder}: {error.strerror}") from error
    found = [DumpFile(os.path.join(folder, name)) for name in names]  # noqa: PTH118  shown as it was given
    return [source for source in found if source.suffix in SUFFIXES and source.name.count(".") == 1]
