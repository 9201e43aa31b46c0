"""Compares files that carry no checksum with the batches that they describe, when a log is opened.

Each entry costs a few reads. Entries whose batches are gone, as after a compaction, count as right.
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
    """Whether the batches carry leader epochs; old formats do not. Raises StorageFailed."""
    firsts = (_batch_at(segments, segment.base) for segment in segments)
    return any(first is not None and first.leader_epoch >= 0 for first in firsts)


def missing_log_start(first_base: int, start_offset: int, epochs: LeaderEpochCache) -> int | None:
    """Return where the log should start, if segments before its first one are missing; else None.

    The log start is checkpointed before a segment is removed, so it is never below the first
    segment. The leader epochs begin where the log did when they were written. Kafka checkpoints no
    start that is a segment's first offset, but its epochs begin there.

    Args: first_base: of the first segment; start_offset: the checkpointed log start, 0: none.
    """
    rows = epochs.entries()
    expected = max(start_offset, rows[0][1] if rows else 0)
    return expected if expected < first_base and (start_offset > 0 or rows) else None


def epoch_contradiction(epochs: LeaderEpochCache, segments: Sequence[Segment]) -> str | None:
    """Describe the leader epoch that the batches contradict; None: none does.

    Only the newest `ENTRIES_CHECKED_MAX` are compared. Raises StorageFailed.
    """
    rows = epochs.entries()
    for number in range(max(len(rows) - ENTRIES_CHECKED_MAX, 0), len(rows)):
        epoch, start = rows[number]
        end = rows[number + 1][1] if number + 1 < len(rows) else None
        first = _batch_at(segments, start)
        # the oldest epoch begins where the log did when the file was written: maybe within a batch,
        # and later than the file says now
        if (
            first is not None
            and (end is None or first.base_offset < end)
            and not _begins(first, epoch, 0 if number == 0 else start)
        ):
            offsets = f"{first.base_offset} to {first.last_offset}"
            return f"epoch {epoch} from {start} on, where batch {offsets} is of epoch {first.leader_epoch}"
        before = _batch_at(segments, start - 1) if start > segments[0].base and number > 0 else None
        if before is not None and before.last_offset < start and before.leader_epoch >= epoch:
            return f"epoch {epoch} from {start} on, where the batch before is of epoch {before.leader_epoch}"
    return None


def _begins(batch: BatchHeader, epoch: int, start: int) -> bool:
    return batch.leader_epoch in (-1, epoch) and batch.base_offset >= start


def transaction_contradiction(number: int, segments: Sequence[Segment], end_offset: int) -> str | None:
    """Describe the entry of a segment's transaction index that the log contradicts; None: none.

    Args: number: of the segment in `segments`. Raises StorageFailed.
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
    for row, aborted_txn in enumerate(rows):
        if (
            not last_offset < aborted_txn.last_offset < limit
            or not stable <= aborted_txn.last_stable_offset <= aborted_txn.last_offset + 1
        ):
            return f"entry {row}, {aborted_txn}, out of order or beyond {limit}"
        if row < ENTRIES_CHECKED_MAX and not _is_in_log(aborted_txn, segments):
            return f"entry {row}, {aborted_txn}, which is not in the log"
        last_offset, stable = aborted_txn.last_offset, aborted_txn.last_stable_offset
    return None


def _is_in_log(aborted_txn: AbortedTxn, segments: Sequence[Segment]) -> bool:
    marker = _batch_at(segments, aborted_txn.last_offset)
    if (
        marker is not None
        and marker.base_offset <= aborted_txn.last_offset
        and (not marker.is_control or marker.producer_id != aborted_txn.producer_id)
    ):
        return False
    if not 0 <= aborted_txn.first_offset <= aborted_txn.last_offset:
        return False
    first = _batch_at(segments, aborted_txn.first_offset)
    if (
        first is None
        or first.record_count == 0
        or first.base_offset > aborted_txn.first_offset
        or aborted_txn.first_offset < segments[0].base
    ):
        return True  # its batches are gone
    before = _batch_at(segments, aborted_txn.first_offset - 1) if aborted_txn.first_offset > segments[0].base else None
    has_begun = before is not None and before.last_offset < aborted_txn.first_offset and _is_of(before, aborted_txn)
    return first.base_offset == aborted_txn.first_offset and _is_of(first, aborted_txn) and not has_begun


def _is_of(batch: BatchHeader, aborted_txn: AbortedTxn) -> bool:
    return batch.is_transactional and not batch.is_control and batch.producer_id == aborted_txn.producer_id


def _batch_at(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """The batch that holds `offset`, or the first after it in its segment; None: there is none, it
    is of an old format, or it is damaged.
    """
    number = bisect_right(segments, offset, key=lambda segment: segment.base) - 1
    if number < 0:
        return None
    try:
        located = segments[number].find(offset)
    except CorruptData:
        return None  # a read of it reports the damage
    return located.unit if located is not None and isinstance(located.unit, BatchHeader) else None
