"""Builds the indexes of a segment from its batches, read or written in order.

Recovery, repair and compaction use it where a segment is read or written as a whole. Appends go to
the index files of `Segment` one entry at a time.
"""

from __future__ import annotations

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log.formats.transaction_index import ENTRY as TXN_ENTRY
from kqueue.log.formats.transaction_index import VERSION as TXN_VERSION
from kqueue.log.formats.transaction_index import AbortedTxn

POSITION_MAX = 2**31 - 1  # an index entry has four bytes for it


class IndexBuilder:
    """Collects the entries of offset, time and transaction index as the bytes of their files.

    Args:
        base: the segment's base offset; entries are relative to it.
        interval_bytes: bytes of log between two entries, at least.
        bytes_max: limit of the offset index and of the time index; a full index stays sparse.

    max_timestamp: the greatest of all batches in ms, -1: none.
    Source: Kafka LogSegment.append, LogSegment.recover.
    """

    __slots__ = (
        "_indexed_timestamp",
        "_last_entry",
        "_max_timestamp_offset",
        "_resumed",
        "base",
        "bytes_max",
        "interval_bytes",
        "max_timestamp",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(self, base: int, interval_bytes: int, *, bytes_max: int = 2**31 - 1) -> None:
        self.base = base
        self.interval_bytes = interval_bytes
        self.bytes_max = bytes_max
        self.offset_index = bytearray()
        self.time_index = bytearray()
        self.transaction_index = bytearray()
        self.max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base
        self._last_entry = 0  # position
        self._resumed = False

    def add(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch; it gets an entry if `interval_bytes` have passed since the last."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if position - self._last_entry > self.interval_bytes or self._resumed:
            self._add_entry(position, last_offset)

    def _add_entry(self, position: int, last_offset: int) -> None:
        room = self.bytes_max
        is_full = len(self.offset_index) + INDEX_ENTRY.size > room or len(self.time_index) + 2 * TIME_ENTRY.size > room
        if position > POSITION_MAX or is_full:
            return
        self.offset_index += INDEX_ENTRY.pack(last_offset - self.base, position)
        self.finish()
        self._last_entry = position
        self._resumed = False

    def resume(self) -> None:
        """Give the next batch an entry: it follows damage, which look-ups must not read."""
        self._resumed = True

    def add_aborted(self, aborted: AbortedTxn) -> None:
        """Add an aborted transaction whose marker is in the segment."""
        self.transaction_index += TXN_ENTRY.pack(TXN_VERSION, *aborted)

    def finish(self) -> None:
        """Add the time entry that ends a sealed segment, unless the last entry has its time."""
        if self.max_timestamp > self._indexed_timestamp:
            self.time_index += TIME_ENTRY.pack(self.max_timestamp, self._max_timestamp_offset - self.base)
            self._indexed_timestamp = self.max_timestamp
