"""The offset index of a segment: a sparse map from offsets to positions.

    entry: offset minus the segment's base uint31 | position in the .log file uint31
           (big-endian, ascending)

An entry holds the last offset of a batch and the position where that batch begins. There is one
entry for every `index.interval.bytes` of log. Source: Kafka OffsetIndex.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.index_file import Fields, IndexFile
from kqueue.storage import Storage

ENTRY = struct.Struct(">ii")
RELATIVE_OFFSET_MAX: Final = 2**31 - 1


class IndexEntry(NamedTuple):
    """One entry of the index.

    Attributes:
        offset: absolute offset.
        position: position in the .log file, in bytes.
    """

    offset: int
    position: int


class OffsetIndex:
    """The offset index of one segment; `base` is the segment's first offset.

    Thread: one thread appends; concurrent reads do not change the index.
    """

    __slots__ = ("base", "entries")

    def __init__(
        self, storage: Storage, path: str, base: int, *, create: bool = False, size: int | None = None
    ) -> None:
        self.base = base
        self.entries = IndexFile(storage, path, ENTRY, create=create, size=size)

    def check(self) -> None:
        """Check that the file can be an index of its segment.

        Raises:
            CorruptIndex: the size is wrong, or the last entry precedes the first.
        """
        number, last = self.entries.last()
        if number >= 0 and not 0 <= self.entries.first()[0] <= last[0]:
            raise CorruptIndex(f"the last entry of the index of {self.base} lies before the first")

    def append(self, offset: int, position: int) -> None:
        """Add an entry after the last one.

        Raises:
            StorageFailed: the file cannot be written.
            CorruptIndex: the existing entries cannot be read.
        """
        self.entries.append(ENTRY.pack(offset - self.base, position))

    def lookup(self, offset: int) -> IndexEntry:
        """Return the last indexed batch that ends at or before `offset`.

        Returns:
            The entry; (base, 0) if no indexed batch does: then `offset` is between the segment's
            start and the first entry.

        Raises:
            CorruptIndex: the file cannot be read, or its entries do not ascend.

        Source: Kafka OffsetIndex.lookup.
        """
        return self._entry(*self.entries.search(0, offset - self.base))

    def by_position(self, position: int) -> IndexEntry:
        """Return the last indexed batch that begins at or before `position`; (base, 0): none.

        Raises:
            CorruptIndex: as `lookup`.
        """
        return self._entry(*self.entries.search(1, position))

    def last(self) -> IndexEntry:
        """Return the last entry; (base, 0) if the index is empty.

        Raises:
            CorruptIndex: as `lookup`.
        """
        return self._entry(*self.entries.last())

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from `offset` on.

        Raises:
            StorageFailed: the file cannot be truncated.
            CorruptIndex: the file cannot be read.
        """
        self.entries.cut(self.entries.search(0, offset - self.base - 1)[0] + 1)

    def _at(self, number: int) -> IndexEntry:
        return self._entry(number, self.entries.at(number) if number >= 0 else ())

    def _entry(self, number: int, fields: Fields) -> IndexEntry:
        if number < 0:
            return IndexEntry(self.base, 0)
        relative, position = fields
        if number > 0 and (relative <= 0 or position <= 0):  # zeros: the file was truncated, then appended to
            raise CorruptIndex(
                f"entry {number} of the index of {self.base} is {relative}, {position}, expected more than those "
                "before it"
            )
        return IndexEntry(self.base + relative, position)
