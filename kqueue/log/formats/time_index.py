"""The time index of a segment: a sparse map from timestamps to offsets.

    entry: timestamp int64, ms | offset minus the segment's base uint31
           (big-endian, both ascending)

An entry (t, o) means: t is the greatest timestamp so far, in the batch that ends at o. Every record
with a later timestamp follows that batch. Entries are added with those of the offset index if the
greatest timestamp has grown since, and at the end of the segment. Source: Kafka TimeIndex.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.index_file import Fields, IndexFile
from kqueue.storage import Storage

ENTRY = struct.Struct(">qi")
NO_TIMESTAMP = -1


class TimeEntry(NamedTuple):
    """One entry of the index.

    Attributes:
        timestamp: in ms; -1: none.
        offset: absolute offset.
    """

    timestamp: int
    offset: int


class TimeIndex:
    """The time index of one segment; `base` is the segment's first offset.

    Thread: one thread appends; concurrent reads do not change the index.
    """

    __slots__ = ("_last_timestamp", "base", "entries")

    def __init__(
        self, storage: Storage, path: str, base: int, *, create: bool = False, size: int | None = None
    ) -> None:
        self.base = base
        self.entries = IndexFile(storage, path, ENTRY, create=create, size=size)
        self._last_timestamp: int | None = None  # of the last entry; None = not read yet

    def check(self) -> None:
        """Check that the file can be an index of its segment.

        Raises:
            CorruptIndex: the size is wrong, or the last entry precedes the first.
        """
        number, last = self.entries.last()
        if number >= 0 and not (self.entries.first()[0] <= last[0] and last[1] >= 0):
            raise CorruptIndex(f"the last entry of the time index of {self.base} lies before the first")

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is greater than the last entry's.

        Raises:
            StorageFailed: the file cannot be written.
            CorruptIndex: the last entry cannot be read.
        """
        if self._last_timestamp is None:
            self._last_timestamp = self.last().timestamp
        if timestamp > self._last_timestamp:
            self.entries.append(ENTRY.pack(timestamp, offset - self.base))
            self._last_timestamp = timestamp

    def lookup(self, timestamp: int) -> TimeEntry:
        """Return the last entry at or before `timestamp`; (-1, base) if there is none.

        Raises:
            CorruptIndex: the file cannot be read, or its entries do not ascend.

        Source: Kafka TimeIndex.lookup.
        """
        return self._entry(*self.entries.search(0, timestamp))

    def last(self) -> TimeEntry:
        """Return the last entry; (-1, base) if the index is empty.

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
        self.entries.cut(self.entries.search(1, offset - self.base - 1)[0] + 1)
        self._last_timestamp = None

    def replace(self, data: bytes) -> None:
        """Replace all entries with `data`.

        Raises:
            StorageFailed: the file cannot be written.
        """
        self.entries.replace(data)
        self._last_timestamp = None

    def restart(self) -> None:
        """Remove all entries, which could not be read, so that more can be appended.

        Raises:
            StorageFailed: the file cannot be written.
        """
        self.entries.restart(b"")
        self._last_timestamp = None

    def _at(self, number: int) -> TimeEntry:
        return self._entry(number, self.entries.at(number) if number >= 0 else ())

    def _entry(self, number: int, fields: Fields) -> TimeEntry:
        if number < 0:
            return TimeEntry(NO_TIMESTAMP, self.base)
        timestamp, relative = fields
        if number > 0 and relative <= 0:  # zeros: the file was truncated, then appended to
            raise CorruptIndex(
                f"entry {number} of the time index of {self.base} is {timestamp}, {relative}, expected a later offset"
            )
        return TimeEntry(timestamp, self.base + relative)
