"""Files of fixed-size entries, all of one `struct.Struct`: what the indexes have in common.

Once something was appended the entries are in memory as well as in the file; else they are read through a map that the
storage may drop and make again. So opening a log costs no more for long indexes.
"""

from __future__ import annotations

import struct
from typing import Any

from kqueue.base.errors import CorruptIndex
from kqueue.storage import File, Storage

Bytes = bytearray | memoryview


class EntryFile:
    """One such file. Crash: entries are not synced on their own; see `Segment`."""

    __slots__ = ("_path", "_tail", "entry", "file")

    def __init__(self, storage: Storage, path: str, entry: struct.Struct, *, create: bool = False, size: int | None = None) -> None:
        self.file: File = storage.open(path, create=create, size=size)
        self.entry = entry
        self._path = path
        self._tail: bytearray | None = bytearray() if create and self.file.size == 0 else None

    @property
    def is_loaded(self) -> bool:
        return self._tail is not None

    @property
    def count(self) -> int:
        """How many entries. Raises CorruptIndex: the size is no multiple of an entry's."""
        size = self.file.size if self._tail is None else len(self._tail)
        if size % self.entry.size:
            raise CorruptIndex(f"{self._path} has {size} bytes, which is no multiple of {self.entry.size}")
        return size // self.entry.size

    def load(self) -> None:
        """Take the entries into memory, to append to them."""
        if self._tail is None:
            self._tail = bytearray(self.file.read_at(0, self.file.size))

    def unload(self) -> None:
        """No more appends: the file has all entries."""
        self._tail = None

    def view(self) -> Bytes:
        """All entries, to read from at once; don't keep it."""
        return self._tail if self._tail is not None else self.file.map()

    def at(self, number: int) -> tuple[Any, ...]:
        return self.entry.unpack_from(self.view(), number * self.entry.size)

    def append(self, data: bytes) -> None:
        """Add entries. Raises StorageFailed."""
        if self._tail is None:
            self.load()
        assert self._tail is not None
        self.file.append(data)
        self._tail += data

    def cut(self, count: int) -> None:
        """Keep the first `count` entries. Raises StorageFailed."""
        size = count * self.entry.size
        if size < self.file.size:
            self.file.truncate(size)
        if self._tail is not None:
            del self._tail[size:]

    def replace(self, data: bytes) -> None:
        """Have these entries and no others; a crash in between leaves a file that has to be rebuilt. Raises StorageFailed."""
        self.cut(0)
        if data:
            self.file.append(data)
        if self._tail is not None:
            self._tail += data
