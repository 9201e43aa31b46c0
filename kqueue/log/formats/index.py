"""The offset index of a segment: from offsets to positions, sparse.

    entry: offset less the segment's base uint31 | position in the .log file uint31        (big-endian, rising)

An entry names the last offset of a batch, and where that batch begins; there is one for every `index.interval.bytes` of
log. Source: Kafka OffsetIndex.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.entryfile import EntryFile
from kqueue.storage import Storage

ENTRY = struct.Struct(">ii")
_FIRST = struct.Struct(">i")
RELATIVE_OFFSET_MAX = 2**31 - 1


class IndexEntry(NamedTuple):
    """`offset` absolute; `position` in bytes."""

    offset: int
    position: int


class OffsetIndex:
    """`base`: the segment's first offset. Appends by one thread, reads beside them are pure."""

    __slots__ = ("base", "entries")

    def __init__(self, storage: Storage, path: str, base: int, *, create: bool = False, size: int | None = None) -> None:
        self.base = base
        self.entries = EntryFile(storage, path, ENTRY, create=create, size=size)

    def check(self) -> None:
        """Look whether this can be an index of its segment. Raises CorruptIndex: size, or the last entry lies before the first."""
        count = self.entries.count
        if count and not 0 <= self.entries.at(0)[0] <= self.entries.at(count - 1)[0]:
            raise CorruptIndex(f"the last entry of the index of {self.base} lies before the first")

    def append(self, offset: int, position: int) -> None:
        """Add an entry beyond the last. Raises StorageFailed."""
        self.entries.append(ENTRY.pack(offset - self.base, position))

    def lookup(self, offset: int) -> IndexEntry:
        """Find the last indexed batch that ends at or before `offset`.

        Returns: the entry; (base, 0) if none does: then the batch that holds `offset` lies between the segment's start and the first entry.
        Raises CorruptIndex: the size is no multiple of 8. Source: Kafka OffsetIndex.lookup.
        """
        relative = offset - self.base
        count = self.entries.count
        data = self.entries.view()
        found = bisect_right(range(count), relative, key=lambda number: _FIRST.unpack_from(data, number * 8)[0])
        return self._at(found - 1)

    def by_position(self, position: int) -> IndexEntry:
        """Find the last indexed batch that begins at or before `position`; (base, 0) if none does. Raises as `lookup`."""
        count = self.entries.count
        data = self.entries.view()
        found = bisect_right(range(count), position, key=lambda number: _FIRST.unpack_from(data, number * 8 + 4)[0])
        return self._at(found - 1)

    def last(self) -> IndexEntry:
        """The last entry, (base, 0) if there is none. Raises as `lookup`."""
        return self._at(self.entries.count - 1)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from `offset` on. Raises StorageFailed."""
        count = self.entries.count
        self.entries.cut(bisect_left(range(count), offset - self.base, key=lambda number: self.entries.at(number)[0]))

    def _at(self, number: int) -> IndexEntry:
        if number < 0:
            return IndexEntry(self.base, 0)
        relative, position = self.entries.at(number)
        return IndexEntry(self.base + relative, position)
