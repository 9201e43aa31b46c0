"""What a folder says about transactions: which were aborted, and where the first open one begins.
Knows no Spark.

A broker keeps both beside the log, so that no reader has to go through all of it: a segment's
`.txnindex` lists the transactions that were aborted in it, and a `.snapshot` those that were open
where it ends. What a crash may have cost them is not relied on: below the recovery point, and
everywhere after a clean stop, they are whole; above it the headers of the batches tell.
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
"""Of the open transactions: producer id -> the first offset."""


class Aborted(NamedTuple):
    """A transaction that was aborted: the producer's batches from `first` to its marker, at `last`,
    are not to be seen.
    """

    producer_id: int
    first: int
    last: int


class AbortedTransactions:
    """The aborted transactions of one stretch of a log, to be gone through from its beginning to
    its end.
    """

    def __init__(self, found: Iterable[Aborted]) -> None:
        self._coming = sorted(found, key=lambda one: -one.first)  # the earliest last
        self._here: list[Aborted] = []
        self._spans = AbortedRanges()
        for one in sorted(self._coming, key=lambda one: one.last):
            self._spans.add(*one)

    def between(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of those that touch these offsets, as Fetch answers them.
        `start` must not go back.
        """
        while self._coming and self._coming[-1].first < end:
            self._here.append(self._coming.pop())
        self._here = [one for one in self._here if one.last >= start]
        return [(one.producer_id, one.first) for one in self._here]

    def has(self, batch: Batch) -> bool:
        """Whether a batch of data belongs to one of them."""
        return self._spans.has(batch)


def aborted_transactions(log: LogFolder, start: int, end: int) -> AbortedTransactions:
    """Those with records at these offsets, all of whose transactions have ended.

    Raises: CorruptBatch, StorageFailed, FileNotFoundError: as reading headers does, where the
    indexes do not tell.
    """
    indexed = _from_indexes(log, start, end)
    if indexed.is_all:
        return AbortedTransactions(indexed.found)
    begun = _open_at(log, indexed.end) if indexed.end > start else None
    if begun is None:
        return AbortedTransactions(_from_headers(log, start, end, {}))
    begun = {producer_id: first for producer_id, first in begun.items() if first < end}
    return AbortedTransactions([*indexed.found, *_from_headers(log, indexed.end, end, begun)])


class _Indexed(NamedTuple):
    """What the indexes of segments below `end` tell; `is_all`: no other segment can have more to
    tell.
    """

    found: list[Aborted]
    end: int
    is_all: bool


def _from_indexes(log: LogFolder, start: int, end: int) -> _Indexed:
    found: list[Aborted] = []
    limit, told = _whole_to(log), log.segments[0].base_offset
    for segment, following in pairwise((*log.segments, None)):
        assert segment is not None
        after = None if following is None else following.base_offset
        if limit is not None and (after is None or after > limit):
            return _Indexed(found, told, False)
        if after is None or after > start:
            entries = _index_of(segment, after)
            if entries is None:
                return _Indexed(found, told, False)
            found += (Aborted(*one[:3]) for one in entries if one.last_offset >= start and one.first_offset < end)
            if any(one.last_stable_offset >= end for one in entries):  # what began before had ended by then
                break
        told = segment.base_offset if after is None else after
    return _Indexed(found, told, True)


def _whole_to(log: LogFolder) -> int | None:
    """The offset below which what stands beside the log has reached the disk; None: after a clean
    stop, all of it.
    """
    if log.storage.exists(CLEAN_SHUTDOWN):
        return None
    try:
        return decode_offsets(log.storage.read(RECOVERY_POINTS)).get((log.topic or "", log.partition or 0), 0)
    except (FileNotFoundError, CorruptIndex, StorageFailed):
        return 0


def _index_of(segment: Segment, after: int | None) -> list[AbortedTxn] | None:
    """None: it can't be right, or somebody has brought the log here without its indexes."""
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


def _from_headers(log: LogFolder, start: int, end: int, begun: OpenTransactions) -> Iterator[Aborted]:
    """Goes on beyond `end` as long as a transaction that began before it has not ended. Args:
    begun: open at `start`; changed.
    """
    for batch in log.batches(start_offset=max(start, log.start_offset), check=False):
        is_beyond = batch.base_offset >= end
        if is_beyond and not begun:
            return
        ended = _follow(batch, begun, grows=not is_beyond)
        if ended is not None:
            yield ended


def _follow(batch: Batch, begun: OpenTransactions, *, grows: bool = True) -> Aborted | None:
    """Keep `begun` as it is after a batch; returns what its marker aborts. Args: grows: whether
    what begins in it counts.
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
    return Aborted(header.producer_id, first, header.last_offset) if kind == ABORT and first is not None else None


def _open_at(log: LogFolder, offset: int) -> OpenTransactions | None:
    """The transactions that are open at this offset, None: there is no snapshot that says it."""
    try:
        producers = decode_snapshot(log.storage.read(f"{log.folder}/{file_name(offset, SNAPSHOT)}"), offset)
    except (FileNotFoundError, CorruptIndex, StorageFailed):
        return None
    return {
        producer_id: one.transaction_offset for producer_id, one in producers.items() if one.transaction_offset >= 0
    }


def _newest_snapshot(log: LogFolder, least: int, most: int) -> tuple[int, OpenTransactions] | None:
    """The newest that lies between these, with what was open there."""
    named = (parse_file_name(entry.name) for entry in log.storage.list(log.folder) if not entry.is_folder)
    offsets = sorted(
        (one[0] for one in named if one is not None and one[1] == SNAPSHOT and least <= one[0] <= most), reverse=True
    )
    return next(((offset, begun) for offset in offsets if (begun := _open_at(log, offset)) is not None), None)


class LastStableOffset:
    """How far a log's transactions have ended; what one look learned, the next ones need not look
    at again.
    """

    def __init__(self) -> None:
        self._topic_id: bytes | None = None
        self._next: int | None = None
        self._begun: OpenTransactions = {}

    def find(self, log: LogFolder, end: int, since: int | None) -> int:
        """`end`, or the offset before it at which a transaction begins that has not ended by then.

        Args: since: no transaction that is still open began before; None: that is not known.
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
