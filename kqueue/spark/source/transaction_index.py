"""Transactions of a log folder: aborted ranges and the last stable offset. No pyspark.

A broker stores both beside the log, so that readers need not scan it: a segment's `.txnindex` lists
its aborted transactions, and a `.snapshot` the open ones at its offset. Below the recovery point,
and everywhere after a clean stop, these files are complete. Above it a crash may have truncated
them, so batch headers are scanned instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex, StorageFailed
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, decode_offsets
from kqueue.log.formats.filenames import INDEX, SNAPSHOT, TXNINDEX, file_name, parse_file_name
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.segments import Batch, Segment
from kqueue.log_tools.transaction_outcomes import AbortedRanges
from kqueue.records.batch import BatchHeader
from kqueue.records.record import ABORT, COMMIT, decode_control

OpenTransactions = dict[int, int]
"""Open transactions: producer id -> first offset."""


class AbortedTxnRange(NamedTuple):
    """An aborted transaction of a producer, from its first batch to its marker at `last`."""

    producer_id: int
    first: int
    last: int


class AbortedTransactions:
    """The aborted transactions of an offset range, for one pass in offset order."""

    def __init__(self, aborted: Iterable[AbortedTxnRange]) -> None:
        self._coming = sorted(aborted, key=lambda one: -one.first)  # the earliest last
        self._here: list[AbortedTxnRange] = []
        self._spans = AbortedRanges()
        for one in sorted(self._coming, key=lambda one: one.last):
            self._spans.add(*one)

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of those that overlap [start, end), as Fetch does.

        `start` must not decrease between calls.
        """
        while self._coming and self._coming[-1].first < end:
            self._here.append(self._coming.pop())
        self._here = [one for one in self._here if one.last >= start]
        return [(one.producer_id, one.first) for one in self._here]

    def has(self, batch: Batch) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        return self._spans.has(batch)


def aborted_transactions(log: LogFolder, start: int, end: int) -> AbortedTransactions:
    """Return the aborted transactions with records in [start, end); all of them have ended.

    Raises: CorruptBatch, StorageFailed, FileNotFoundError: as reading headers does, where the
        indexes are incomplete.
    """
    indexed = _from_indexes(log, start, end)
    if indexed.is_all:
        return AbortedTransactions(indexed.aborted)
    begun = _open_at(log, indexed.end) if indexed.end > start else None
    if begun is None:
        return AbortedTransactions(_from_headers(log, start, end, {}))
    begun = {producer_id: first for producer_id, first in begun.items() if first < end}
    return AbortedTransactions([*indexed.aborted, *_from_headers(log, indexed.end, end, begun)])


class _Indexed(NamedTuple):
    """The aborted transactions in the indexes of segments below `end`.

    `is_all`: no other segment can add to it.
    """

    aborted: list[AbortedTxnRange]
    end: int
    is_all: bool


def _from_indexes(log: LogFolder, start: int, end: int) -> _Indexed:
    aborted: list[AbortedTxnRange] = []
    limit, known_from = _whole_to(log), log.segments[0].base_offset
    for segment, following in pairwise((*log.segments, None)):
        assert segment is not None
        after = None if following is None else following.base_offset
        if limit is not None and (after is None or after > limit):
            return _Indexed(aborted, known_from, False)
        if after is None or after > start:
            entries = _index_of(segment, after)
            if entries is None:
                return _Indexed(aborted, known_from, False)
            aborted += (
                AbortedTxnRange(*one[:3]) for one in entries if one.last_offset >= start and one.first_offset < end
            )
            if any(one.last_stable_offset >= end for one in entries):  # what began before had ended by then
                break
        known_from = segment.base_offset if after is None else after
    return _Indexed(aborted, known_from, True)


def _whole_to(log: LogFolder) -> int | None:
    """Return the offset below which the indexes are complete; None: everywhere (clean stop)."""
    if log.storage.exists(CLEAN_SHUTDOWN):
        return None
    try:
        return decode_offsets(log.storage.read(RECOVERY_POINTS)).get((log.topic or "", log.partition or 0), 0)
    except (FileNotFoundError, CorruptIndex, StorageFailed):
        return 0


def _index_of(segment: Segment, after: int | None) -> list[AbortedTxn] | None:
    """Return a segment's entries; None: the index is invalid, or was not copied with the log."""
    if INDEX not in segment.names:
        return None
    if TXNINDEX not in segment.names:
        return []
    try:
        entries = list(decode_aborted(segment.storage.read(segment.path(TXNINDEX))))
    except CorruptIndex:
        return None
    last = segment.base_offset - 1
    for one in entries:
        if not (
            0 <= one.first_offset <= one.last_offset
            and last < one.last_offset
            and (after is None or one.last_offset < after)
        ):
            return None
        last = one.last_offset
    return entries


def _from_headers(log: LogFolder, start: int, end: int, begun: OpenTransactions) -> Iterator[AbortedTxnRange]:
    """Scan headers; continue beyond `end` until transactions begun before it have ended.

    Args:
        begun: transactions open at `start`; modified.
    """
    for batch in log.batches(start_offset=max(start, log.start_offset), check=False):
        is_beyond = batch.base_offset >= end
        if is_beyond and not begun:
            return
        ended = _follow(batch, begun, grows=not is_beyond)
        if ended is not None:
            yield ended


def _follow(batch: Batch, begun: OpenTransactions, *, grows: bool = True) -> AbortedTxnRange | None:
    """Update `begun` for a batch; return the transaction that its marker aborts.

    Args:
        grows: whether transactions that begin in this batch are added.
    """
    header = batch.unit
    if not isinstance(header, BatchHeader) or not header.is_transactional or not header.record_count:
        return None
    if not header.is_control:
        if grows:
            begun.setdefault(header.producer_id, header.base_offset)
        return None
    kind = decode_control(next(batch.records()))[0]
    first = begun.pop(header.producer_id, None) if kind in (ABORT, COMMIT) else None
    return (
        AbortedTxnRange(header.producer_id, first, header.last_offset) if kind == ABORT and first is not None else None
    )


def _open_at(log: LogFolder, offset: int) -> OpenTransactions | None:
    """Return the transactions open at this offset; None: no snapshot has it."""
    try:
        producers = decode_snapshot(log.storage.read(f"{log.folder}/{file_name(offset, SNAPSHOT)}"), offset)
    except (FileNotFoundError, CorruptIndex, StorageFailed):
        return None
    return {
        producer_id: one.transaction_offset for producer_id, one in producers.items() if one.transaction_offset >= 0
    }


def _newest_snapshot(log: LogFolder, least: int, most: int) -> tuple[int, OpenTransactions] | None:
    """Return the newest snapshot in [least, most], as its offset and open transactions."""
    named = (parse_file_name(entry.name) for entry in log.storage.list(log.folder) if not entry.is_folder)
    offsets = sorted(
        (one[0] for one in named if one is not None and one[1] == SNAPSHOT and least <= one[0] <= most), reverse=True
    )
    return next(((offset, begun) for offset in offsets if (begun := _open_at(log, offset)) is not None), None)


class LastStableOffset:
    """The last stable offset of a log; a call continues the scan where the previous one ended."""

    def __init__(self) -> None:
        self._topic_id: bytes | None = None
        self._next: int | None = None
        self._begun: OpenTransactions = {}

    def find(self, log: LogFolder, end: int, since: int | None) -> int:
        """Return `end`, or the first offset below it of a transaction still open at `end`.

        Args:
            since: no open transaction began before this offset; None: unknown.
        Raises: CorruptBatch, StorageFailed, FileNotFoundError: as reading headers does.
        """
        first, topic_id = log.start_offset, log.topic_id
        if self._next is None or self._next > end or topic_id != self._topic_id:
            least = first if since is None else min(max(since, first), end)
            self._next, self._begun = _newest_snapshot(log, least, end) or (least, {})
            self._topic_id = topic_id
        for batch in log.batches(start_offset=max(self._next, first), end_offset=end, check=False):
            if batch.base_offset >= self._next:
                _follow(batch, self._begun)
            self._next = batch.next_offset
        return min([end, *self._begun.values()])
