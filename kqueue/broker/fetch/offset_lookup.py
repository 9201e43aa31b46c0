"""Looks up the offset that ListOffsets asks for: by time, or by one of the special timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.errors import UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.tier_lookups import TierLookups
from kqueue.broker.replicas.partition import Partition

LATEST = -1
EARLIEST = -2
GREATEST_TIME = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
NONE = -1


class ListedOffset(NamedTuple):
    """An offset, its record's timestamp in ms, and its leader epoch; -1: none."""

    timestamp: int = NONE
    offset: int = NONE
    leader_epoch: int = NONE


def find_offset(
    partition: Partition, timestamp: int, end_offset: int, tier: TierLookups | None = None
) -> SlicedWork[ListedOffset]:
    """Return the first record at or after `timestamp` (ms) below `end_offset`, or what a special
    timestamp stands for. Source: KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023.

    Args: tier: the look-ups in the tier, which have ended; None: none of the log is there.
    Raises: StorageFailed, CorruptData. RequestTimedOut: the tier has not answered.
    """
    if timestamp >= 0:
        tiered = None if tier is None else tier.result(partition, timestamp)
        if tiered is not None and tiered.offset >= partition.log_start_offset:
            return ListedOffset(*tiered) if tiered.offset < end_offset else ListedOffset()
        entry = yield from partition.log.offset_for_time(timestamp, end_offset)
        return ListedOffset(*entry) if entry is not None else ListedOffset()
    if timestamp == GREATEST_TIME:
        return (yield from _greatest_time(partition, end_offset))
    return _SPECIAL[timestamp](partition, end_offset)


def _greatest_time(partition: Partition, end_offset: int) -> SlicedWork[ListedOffset]:
    """Return the record with the greatest time; none, as in Kafka, if a transaction keeps it from
    read_committed clients, even where they could read others. The tier is not asked, as in Kafka.
    """
    entry = yield from partition.log.latest_timestamp(partition.high_watermark)
    return ListedOffset(*entry) if entry is not None and entry.offset < end_offset else ListedOffset()


def _latest(partition: Partition, end_offset: int) -> ListedOffset:
    return ListedOffset(offset=end_offset, leader_epoch=partition.leader_epoch)


def _earliest(partition: Partition, end_offset: int) -> ListedOffset:
    start = partition.log_start_offset
    is_empty = start == partition.log_end_offset  # the first record will have the current epoch
    return ListedOffset(
        offset=start, leader_epoch=partition.leader_epoch if is_empty else partition.log.epochs.epoch_at(start)
    )


def _earliest_local(partition: Partition, end_offset: int) -> ListedOffset:
    start = partition.log.local_start_offset
    if start == partition.log.start_offset:
        return _earliest(partition, end_offset)
    return ListedOffset(offset=start, leader_epoch=partition.log.epochs.epoch_at(start))


def _latest_tiered(partition: Partition, end_offset: int) -> ListedOffset:
    """Return the last offset that the tier has; none, if nothing is known to be there."""
    log = partition.log
    if not log.config.tiered or not log.tiered_end:
        return ListedOffset()
    return ListedOffset(offset=log.tiered_end - 1, leader_epoch=log.epochs.epoch_at(log.tiered_end - 1))


def _earliest_pending_upload(partition: Partition, end_offset: int) -> ListedOffset:
    """Return the first offset that the tier lacks; none, while it is not known what it has."""
    log = partition.log
    if not log.config.tiered or (not log.tiered_end and log.local_start_offset > log.start_offset):
        return ListedOffset()
    if not log.tiered_end:
        return _earliest(partition, end_offset)
    offset = max(log.tiered_end, log.start_offset)
    is_end = offset == log.end_offset  # the next record will have the current epoch
    return ListedOffset(offset=offset, leader_epoch=partition.leader_epoch if is_end else log.epochs.epoch_at(offset))


_SPECIAL: dict[int, Callable[[Partition, int], ListedOffset]] = {
    LATEST: _latest,
    EARLIEST: _earliest,
    EARLIEST_LOCAL: _earliest_local,
    LATEST_TIERED: _latest_tiered,
    EARLIEST_PENDING_UPLOAD: _earliest_pending_upload,
}


def segment_starts(partition: Partition, timestamp: int, count: int, now_ms: int) -> list[int]:
    """Return for version 0 at most `count` segment starts, newest first, of segments up to
    `timestamp`: those here, and the log start.

    The log end counts as a segment written now. Source: Kafka 0.9 Log.getOffsetsBefore.
    """
    log = partition.log
    written = [(max(segment.base, log.start_offset), segment.max_timestamp) for segment in log.segments]
    if log.start_offset < log.local_start_offset:
        written.insert(0, (log.start_offset, NONE))
    written.append((log.end_offset, now_ms))
    if timestamp == EARLIEST:
        written = written[:1]
    elif timestamp < 0 and timestamp != LATEST:
        raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in version 0")
    elif timestamp != LATEST:
        written = [(start, last_ms) for start, last_ms in written if last_ms <= timestamp]
    visible = {min(start, partition.high_watermark) for start, _ in written}
    return sorted(visible, reverse=True)[: max(count, 0)]
