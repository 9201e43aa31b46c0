"""The offset index of a segment: from offsets to positions, sparse.

    entry: offset less the segment's base uint31 | position in the .log file uint31
           (big-endian, rising)

An entry names the last offset of a batch, and where that batch begins; there is one for every
`index.interval.bytes` of log. Source: Kafka OffsetIndex.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.index_file import Fields, IndexFile
from kqueue.storage import Storage

ENTRY = struct.Struct(">ii")
RELATIVE_OFFSET_MAX = 2**31 - 1


class IndexEntry(NamedTuple):
    """`offset` absolute; `position` in bytes."""

    offset: int
    position: int


class OffsetIndex:
    """`base`: the segment's first offset. Appends by one thread, reads beside them are pure."""

    __slots__ = ("base", "entries")

    def __init__(
        self, storage: Storage, path: str, base: int, *, create: bool = False, size: int | None = None
    ) -> None:
        self.base = base
        self.entries = IndexFile(storage, path, ENTRY, create=create, size=size)

    def check(self) -> None:
        """Look whether this can be an index of its segment. Raises CorruptIndex: size, or the last
        entry lies before the first.
        """
        number, last = self.entries.last()
        if number >= 0 and not 0 <= self.entries.first()[0] <= last[0]:
            raise CorruptIndex(f"the last entry of the index of {self.base} lies before the first")

    def append(self, offset: int, position: int) -> None:
        """Add an entry beyond the last. Raises StorageFailed; CorruptIndex: the entries that are
        there can't be read.
        """
        self.entries.append(ENTRY.pack(offset - self.base, position))

    def lookup(self, offset: int) -> IndexEntry:
        """Find the last indexed batch that ends at or before `offset`.

        Returns: the entry; (base, 0) if none does: then the batch that holds `offset` lies between
        the segment's start and the first entry. Raises CorruptIndex: it can't be read, or its
        entries do not rise. Source: Kafka OffsetIndex.lookup.
        """
        return self._entry(*self.entries.search(0, offset - self.base))

    def by_position(self, position: int) -> IndexEntry:
        """Find the last indexed batch that begins at or before `position`; (base, 0) if none does.
        Raises as `lookup`.
        """
        return self._entry(*self.entries.search(1, position))

    def last(self) -> IndexEntry:
        """The last entry, (base, 0) if there is none. Raises as `lookup`."""
        return self._entry(*self.entries.last())

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from `offset` on. Raises StorageFailed, CorruptIndex."""
        self.entries.cut(self.entries.search(0, offset - self.base - 1)[0] + 1)

    def _at(self, number: int) -> IndexEntry:
        return self._entry(number, self.entries.at(number) if number >= 0 else ())

    def _entry(self, number: int, fields: Fields) -> IndexEntry:
        if number < 0:
            return IndexEntry(self.base, 0)
        relative, position = fields
        if number > 0 and (relative <= 0 or position <= 0):  # zeros: the file was cut, and appended to behind the cut
            raise CorruptIndex(
                f"entry {number} of the index of {self.base} is {relative}, {position}, expected more than those "
                "before it"
            )
        return IndexEntry(self.base + relative, position)
