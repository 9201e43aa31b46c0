"""The files of one segment: `.log` with the batches, its two indexes, and `.txnindex` if needed.

Each is named by the segment's base offset. Durability: nothing is synced here. The indexes of a
segment that was not synced after it was sealed are rebuilt at the next start, so a crash before may
lose or tear them.
"""

from __future__ import annotations

import contextlib
from typing import Self

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.offset_index import OffsetIndex
from kqueue.log.formats.time_index import TimeIndex
from kqueue.log.formats.transaction_index import TransactionIndex
from kqueue.storage import File, Storage


class SegmentFiles:
    """Open files of one segment; they exist together or not at all.

    Attributes: base: first offset of the segment.
    """

    __slots__ = ("_storage", "base", "folder", "index", "log", "timeindex", "txnindex")

    def __init__(
        self,
        storage: Storage,
        folder: str,
        base: int,
        *,
        create: bool = False,
        sizes: dict[str, int] | None = None,
    ) -> None:
        """Open the files.

        Args:
            create: create those that are missing.
            sizes: bytes by file name, where the caller has just listed the folder.
        Raises: FileNotFoundError, StorageFailed.
        """
        sizes = sizes if sizes is not None else {}

        def path(suffix: str) -> str:
            return f"{folder}/{file_name(base, suffix)}"

        def size(suffix: str) -> int | None:
            return sizes.get(file_name(base, suffix))

        self._storage = storage
        self.folder = folder
        self.base = base
        self.log: File = storage.open(path(LOG), create=create, size=size(LOG))
        self.index = OffsetIndex(storage, path(INDEX), base, create=create, size=size(INDEX))
        self.timeindex = TimeIndex(storage, path(TIMEINDEX), base, create=create, size=size(TIMEINDEX))
        self.txnindex = TransactionIndex(storage, path(TXNINDEX), exists=size(TXNINDEX) is not None)

    def __repr__(self) -> str:
        return f"SegmentFiles({self.folder}/{self.base})"

    @classmethod
    def make(cls, storage: Storage, folder: str, base: int) -> Self:
        """Create the files of a segment that does not exist.

        Raises: StorageFailed: its files are removed again, unless that fails too.
        """
        try:
            return cls(storage, folder, base, create=True)
        except StorageFailed:
            for suffix in (TIMEINDEX, INDEX, LOG):
                with contextlib.suppress(StorageFailed, FileNotFoundError):
                    storage.remove(f"{folder}/{file_name(base, suffix)}")
            raise

    def names(self) -> list[str]:
        """Return the file names, the log's first: without it the others are ignored."""
        suffixes = (LOG, INDEX, TIMEINDEX) if self.txnindex.file is None else (LOG, INDEX, TIMEINDEX, TXNINDEX)
        return [file_name(self.base, suffix) for suffix in suffixes]

    def all(self) -> list[File]:
        """Return all files, to sync or to close; the log's first."""
        files = [self.log, self.index.entries.file, self.timeindex.entries.file]
        return files if self.txnindex.file is None else [*files, self.txnindex.file]

    def remove(self) -> None:
        """Delete the files, the log first.

        Durability: after a crash, indexes without a log are removed at the next start.
        """
        self.close()
        for name in self.names():
            self._storage.remove(f"{self.folder}/{name}")

    def remove_indexes(self) -> None:
        """Delete the indexes by offset and by time. Raises: StorageFailed.

        Durability: after a crash either may be there again.
        """
        for suffix in (INDEX, TIMEINDEX):
            with contextlib.suppress(FileNotFoundError):
                self._storage.remove(f"{self.folder}/{file_name(self.base, suffix)}")

    def close(self) -> None:
        """Close the files."""
        for file in self.all():
            file.close()
