"""The index of a segment's aborted transactions: those whose end marker is in the segment.

    entry: version int16 = 0 | producer id int64 | first offset int64
         | last offset int64, the marker's | last stable offset int64, when the marker was written
           (big-endian, in order of the markers)

The file exists only if it has an entry. Source: KIP-98, Kafka TransactionIndex and AbortedTxn.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex, DiskFull, StorageFailed, StorageUnavailable
from kqueue.storage import File, Storage

ENTRY = struct.Struct(">hqqqq")
VERSION = 0
BLOCK_ENTRIES = 256
"""Entries that are read at once."""


class AbortedTxn(NamedTuple):
    """An aborted transaction; `last_offset` is the offset of its end marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def decode_aborted(data: bytes | bytearray | memoryview) -> Iterator[AbortedTxn]:
    """Yield the entries of an index.

    Raises:
        CorruptIndex: the size or a version is wrong.
    """
    if len(data) % ENTRY.size:
        raise CorruptIndex(
            f"an index of aborted transactions has {len(data)} bytes, which is no multiple of {ENTRY.size}"
        )
    for version, *fields in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptIndex(f"expected version {VERSION} of aborted transactions, found {version}")
        yield AbortedTxn(*fields)


class TransactionIndex:
    """The transaction index of one segment; its first entry creates the file."""

    __slots__ = ("_path", "_storage", "file")

    def __init__(self, storage: Storage, path: str, *, exists: bool) -> None:
        self._storage = storage
        self._path = path
        self.file: File | None = storage.open(path) if exists else None

    def read(self) -> list[AbortedTxn]:
        """Return all entries.

        Unlike the other indexes, this one is not a hint: a missing transaction would be served as
        if it was committed.

        Raises:
            CorruptIndex: the file was truncated, or is not such an index.
            StorageFailed: the file cannot be read.
        """
        if self.file is None:
            return []
        size = self.file.size
        data = self.file.read_at(0, size)
        if len(data) < size:
            raise CorruptIndex(f"{self._path} was cut: expected {size} bytes, found {len(data)}")
        return list(decode_aborted(data))

    def read_from(self, offset: int) -> Iterator[AbortedTxn]:
        """Yield the transactions that end at `offset` or later.

        Reads no entry of the others, except some for a binary search: an index may have 100,000.
        Raises: as `read`.
        """
        file = self.file
        if file is None:
            return
        count, rest = divmod(file.size, ENTRY.size)
        if count <= BLOCK_ENTRIES or rest:
            yield from (aborted for aborted in self.read() if aborted.last_offset >= offset)
            return
        first = bisect_left(range(count), offset, key=lambda number: self._entries(number, 1)[0].last_offset)
        for number in range(first, count, BLOCK_ENTRIES):
            yield from self._entries(number, min(BLOCK_ENTRIES, count - number))

    def _entries(self, number: int, count: int) -> list[AbortedTxn]:
        assert self.file is not None, "an index without a file has no entries"
        size = count * ENTRY.size
        data = self.file.read_at(number * ENTRY.size, size)
        if len(data) < size:
            raise CorruptIndex(f"{self._path} was cut: expected {size} bytes more, found {len(data)}")
        return list(decode_aborted(data))

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry.

        Durability: a crash loses it unless the log was flushed since; recovery rebuilds it.

        Raises:
            StorageUnavailable: the file has no more entries than before.
            StorageFailed: the file cannot be written.
        """
        if self.file is None:
            self.file = self._storage.open(self._path, create=True)
        size = self.file.size
        try:
            self.file.append(ENTRY.pack(VERSION, *aborted))
        except DiskFull:
            self.file.truncate(size)
            raise

    def remove_last(self) -> None:
        """Remove the newest entry.

        Raises:
            StorageFailed: the file cannot be truncated.
        """
        assert self.file is not None, "an index without a file has no entries"
        try:
            self.file.truncate(self.file.size - ENTRY.size)
        except StorageUnavailable as error:
            raise StorageFailed(f"the last entry of {self._path} can't be removed: {error}") from error

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that end at `offset` or later.

        Raises:
            StorageFailed: the file cannot be truncated.
        """
        if self.file is not None:
            keep = sum(aborted.last_offset < offset for aborted in self.read())
            self.file.truncate(keep * ENTRY.size)

    def clear(self) -> None:
        """Remove all entries without reading them.

        Raises:
            StorageFailed: the file cannot be truncated.
        """
        if self.file is not None:
            self.file.truncate(0)
