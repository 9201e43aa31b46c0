"""A file of fixed-size entries, all of one `struct.Struct`: the base of the indexes.

After the first append the entries are in memory and in the file. Before it they are read in blocks,
so that a long index takes no memory. The files are not memory-mapped: an access to the map of a
truncated file or a bad sector ends the process with SIGBUS. An index is a hint: a file that cannot
be read raises CorruptIndex, and the caller continues without it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Any

from kqueue.base.errors import CorruptIndex, DiskFull, StorageFailed, TooManyOpenFiles
from kqueue.storage import File, Storage

BLOCK_BYTES = 1024
GUESSES_MAX = 3  # interpolated reads; after them each read halves the remaining range
Fields = tuple[Any, ...]


class IndexFile:
    """One index file.

    Durability: entries are not synced here; see `segment_files`.
    """

    __slots__ = ("_ends", "_path", "_storage", "_tail", "entry", "file")

    def __init__(
        self, storage: Storage, path: str, entry: struct.Struct, *, create: bool = False, size: int | None = None
    ) -> None:
        self.file: File = storage.open(path, create=create, size=size)
        self.entry = entry
        self._storage = storage
        self._path = path
        self._tail: bytearray | None = bytearray() if create and self.file.size == 0 else None
        self._ends: tuple[Fields, Fields] | None = None  # first and last entry; None: not read yet

    @property
    def count(self) -> int:
        """Number of entries.

        Raises:
            CorruptIndex: the file size is not a multiple of the entry size.
        """
        size = self.file.size if self._tail is None else len(self._tail)
        if size % self.entry.size:
            raise CorruptIndex(f"{self._path} has {size} bytes, which is no multiple of {self.entry.size}")
        return size // self.entry.size

    def load(self) -> None:
        """Read the entries into memory, so that more can be appended.

        Raises:
            CorruptIndex: the file cannot be read.
        """
        if self._tail is None:
            self._tail = bytearray(self.data())
            self._ends = None

    def unload(self) -> str | None:
        """Release the entries in memory; no more are appended. Rewrites the file if it differs.

        Reads the whole file, about 2 MB for each GB of log.

        Returns:
            The difference between the file and the appended entries; None: they are equal.

        Raises:
            StorageFailed: the file cannot be rewritten.
        """
        data, self._tail = self._tail, None
        if data is None:
            return None
        try:
            if self._read(0, len(data) // self.entry.size) == data:
                return None
            wrong = f"{self._path} was changed: it does not hold the entries that were appended"
        except CorruptIndex as error:
            wrong = str(error)
        self.replace(bytes(data))
        return wrong

    def data(self) -> bytes:
        """Return the bytes of all entries.

        Raises:
            CorruptIndex: the file cannot be read.
        """
        return bytes(self._tail) if self._tail is not None else self._read(0, self.count)

    def at(self, number: int) -> Fields:
        """Return the entry of this number, counted from 0; it must exist.

        Raises:
            CorruptIndex: the file cannot be read.
        """
        if self._tail is not None:
            return self.entry.unpack_from(self._tail, number * self.entry.size)
        return self.entry.unpack(self._read(number, number + 1))

    def last(self) -> tuple[int, Fields]:
        """Return the number of the last entry and the entry; (-1, ()): the index is empty.

        Raises:
            CorruptIndex: the file cannot be read.
        """
        count = self.count
        return (count - 1, self._ends_of(count)[1]) if count else (-1, ())

    def first(self) -> Fields:
        """Return the first entry; it must exist.

        Raises:
            CorruptIndex: the file cannot be read.
        """
        return self._ends_of(self.count)[0]

    def search(self, field: int, value: int) -> tuple[int, Fields]:
        """Return the last entry whose field of this number is at most `value`.

        The values of the field must ascend. Reads few blocks of the file: one if the values are
        evenly distributed.

        Returns:
            The number of the entry and the entry; (-1, ()): no entry matches.

        Raises:
            CorruptIndex: the file cannot be read, or its entries do not ascend.
        """
        start, data = (0, self._tail) if self._tail is not None else self._block_of(field, value)
        size, unpack = self.entry.size, self.entry.unpack_from
        number_found = (
            bisect_right(range(len(data) // size), value, key=lambda number: unpack(data, number * size)[field]) - 1
        )
        if number_found >= 0:
            return start + number_found, unpack(data, number_found * size)
        if start:
            raise CorruptIndex(f"the entries of {self._path} do not rise before entry {start}")
        return -1, ()

    def append(self, data: bytes) -> None:
        """Add entries.

        Raises:
            StorageFailed: the file cannot be written.
            DiskFull: the file is unchanged.
            CorruptIndex: the existing entries cannot be read.
        """
        self.load()
        assert self._tail is not None
        try:
            self.file.append(data)
        except DiskFull:
            self.file.truncate(len(self._tail))
            raise
        self._tail += data

    def cut(self, count: int) -> None:
        """Keep only the first `count` entries.

        Raises:
            StorageFailed: the file cannot be truncated.
        """
        size = count * self.entry.size
        if size < self.file.size:
            self.file.truncate(size)
        if self._tail is not None:
            del self._tail[size:]
        self._ends = None

    def replace(self, data: bytes) -> None:
        """Replace all entries.

        Reopens the file, and creates it if it is missing: the open file may no longer have its
        name.

        Durability: a crash during the call leaves a file that must be rebuilt.

        Raises:
            StorageFailed: the file cannot be written.
        """
        self.file.close()
        self.file = self._storage.open(self._path, create=True)
        self.cut(0)
        if not data:
            return
        self.file.append(data)
        if self._tail is not None:
            self._tail += data
        else:
            self._ends = self.entry.unpack_from(data), self.entry.unpack_from(data, len(data) - self.entry.size)

    def restart(self, data: bytes) -> None:
        """Replace unreadable entries with `data`, so that more can be appended.

        Raises:
            StorageFailed: the file cannot be written.
        """
        self._tail = bytearray()
        self.replace(data)

    # --- reading the file

    def _block_of(self, field: int, value: int) -> tuple[int, bytes]:
        """Return the block with the entry that `search` looks for: first number, bytes."""
        low, high = 0, self.count  # the entry is one of low to high - 1, unless all are greater
        length = BLOCK_BYTES // self.entry.size
        if high <= length:
            return 0, self._read(0, high)
        low_value, high_value = (entry[field] for entry in self._ends_of(high))
        guesses = 0
        while high - low > length:
            middle = (low + high) // 2
            if guesses < GUESSES_MAX and low_value <= value < high_value:
                middle = low + (high - low) * (value - low_value) // (high_value - low_value)
            guesses += 1
            start = min(max(middle - length // 2, low), high - length)
            data = self._read(start, start + length)
            first, last = (
                self.entry.unpack_from(data)[field],
                self.entry.unpack_from(data, len(data) - self.entry.size)[field],
            )
            if value < first:
                high, high_value = start, first
            elif value >= last and start + length < high:
                low, low_value = start + length - 1, last
            else:
                return start, data
        return low, self._read(low, high)

    def _ends_of(self, count: int) -> tuple[Fields, Fields]:
        if self._tail is not None:
            return self.at(0), self.at(count - 1)
        if self._ends is None:
            self._ends = self.at(0), self.at(count - 1)
        return self._ends

    def _read(self, start: int, end: int) -> bytes:
        """Return the bytes of entries `start` to `end` (exclusive).

        Raises:
            CorruptIndex: the file cannot be read or is too short.
            TooManyOpenFiles: the file may be intact.
        """
        position, size = start * self.entry.size, (end - start) * self.entry.size
        if not size:
            return b""
        try:
            data = self.file.read_at(position, size)
        except TooManyOpenFiles:
            raise  # the file may be intact
        except (StorageFailed, FileNotFoundError) as error:
            raise CorruptIndex(f"{self._path} can't be read: {error}") from error
        if len(data) < size:
            raise CorruptIndex(f"{self._path} was cut: expected {size} bytes at position {position}, found {len(data)}")
        return data
