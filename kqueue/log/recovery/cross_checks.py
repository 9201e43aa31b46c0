"""Files that have no checksum, against the batches that they speak of.

Looked at when a log is opened, by a few reads for each of their entries. What the batches can't
tell (compaction may have taken them) is believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kqueue.base.errors import CorruptData
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.segment import Segment
from kqueue.records.batch import BatchHeader

ENTRIES_CHECKED_MAX = 1000


def has_epochs(segments: Sequence[Segment]) -> bool:
    """Whether the batches say which leader wrote them; those of old formats don't. Raises
    StorageFailed.
    """
    firsts = (_batch_at(segments, segment.base) for segment in segments)
    return any(first is not None and first.leader_epoch >= 0 for first in firsts)


def missing_log_start(first_base: int, start_offset: int, epochs: LeaderEpochCache) -> int | None:
    """Where the log should start, if segments before its first one are gone; None: none is known to
    be.

    Args: first_base: of the first segment. start_offset: the log start that was checkpointed, 0 =
    none. The log start is checkpointed before a segment is removed, so it is never below the first
    segment. The leader epochs begin where the log did when they were written. Kafka checkpoints no
    start that is a segment's first offset, but its epochs begin there.
    """
    rows = epochs.entries()
    expected = max(start_offset, rows[0][1] if rows else 0)
    return expected if expected < first_base and (start_offset > 0 or rows) else None


def epoch_contradiction(epochs: LeaderEpochCache, segments: Sequence[Segment]) -> str | None:
    """What of the leader epochs the batches contradict; None: nothing. The newest are looked at.
    Raises StorageFailed.
    """
    rows = epochs.entries()
    for number in range(max(len(rows) - ENTRIES_CHECKED_MAX, 0), len(rows)):
        epoch, start = rows[number]
        end = rows[number + 1][1] if number + 1 < len(rows) else None
        first = _batch_at(segments, start)
        # the oldest begins where the log did when the file was written, which may be within a
        # batch, and later than it is said to now
        if (
            first is not None
            and (end is None or first.base_offset < end)
            and not _begins(first, epoch, 0 if number == 0 else start)
        ):
            return f"epoch {epoch} from {start} on, where batch {first.base_offset} to {first.last_offset} is of epoch {first.leader_epoch}"
        before = _batch_at(segments, start - 1) if start > segments[0].base and number > 0 else None
        if before is not None and before.last_offset < start and before.leader_epoch >= epoch:
            return f"epoch {epoch} from {start} on, where the batch before is of epoch {before.leader_epoch}"
    return None


def _begins(batch: BatchHeader, epoch: int, start: int) -> bool:
    return batch.leader_epoch in (-1, epoch) and batch.base_offset >= start


def transaction_contradiction(number: int, segments: Sequence[Segment], end_offset: int) -> str | None:
    """What of the index of aborted transactions of one segment its log contradicts; None: nothing.
    Raises StorageFailed.
    """
    segment = segments[number]
    if segment.txnindex.file is None:
        return None
    limit = segments[number + 1].base if number + 1 < len(segments) else end_offset
    try:
        rows = segment.txnindex.read()
    except CorruptData as error:
        return str(error)
    last_offset, stable = segment.base - 1, 0
    for row, one in enumerate(rows):
        if not last_offset < one.last_offset < limit or not stable <= one.last_stable_offset <= one.last_offset + 1:
            return f"entry {row}, {one}, out of order or beyond {limit}"
        if row < ENTRIES_CHECKED_MAX and not _is_there(one, segments):
            return f"entry {row}, {one}, which does not stand in the log"
        last_offset, stable = one.last_offset, one.last_stable_offset
    return None


def _is_there(one: AbortedTxn, segments: Sequence[Segment]) -> bool:
    marker = _batch_at(segments, one.last_offset)
    if (
        marker is not None
        and marker.base_offset <= one.last_offset
        and (not marker.is_control or marker.producer_id != one.producer_id)
    ):
        return False
    if not 0 <= one.first_offset <= one.last_offset:
        return False
    first = _batch_at(segments, one.first_offset)
    if (
        first is None
        or first.record_count == 0
        or first.base_offset > one.first_offset
        or one.first_offset < segments[0].base
    ):
        return True  # gone
    before = _batch_at(segments, one.first_offset - 1) if one.first_offset > segments[0].base else None
    has_begun = before is not None and before.last_offset < one.first_offset and _is_of(before, one)
    return first.base_offset == one.first_offset and _is_of(first, one) and not has_begun


def _is_of(batch: BatchHeader, one: AbortedTxn) -> bool:
    return batch.is_transactional and not batch.is_control and batch.producer_id == one.producer_id


def _batch_at(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """The batch that holds `offset`, or the first after it in its segment; None: there is none, or
    it is of old magic or damaged.
    """
    number = bisect_right(segments, offset, key=lambda segment: segment.base) - 1
    if number < 0:
        return None
    try:
        found = segments[number].find(offset)
    except CorruptData:
        return None  # whoever reads it hears of it
    return found.unit if found is not None and isinstance(found.unit, BatchHeader) else None
