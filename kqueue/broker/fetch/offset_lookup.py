"""Looks up the offset that ListOffsets asks for: by time, or by one of the special timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.errors import UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
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


def find_offset(partition: Partition, timestamp: int, end_offset: int) -> SlicedWork[ListedOffset]:
    """Return the first record at or after `timestamp` (ms) below `end_offset`, or what a special
    timestamp stands for. Source: KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023.

    Raises: StorageFailed, CorruptData.
    """
    if timestamp >= 0:
        entry = yield from partition.log.offset_for_time(timestamp, end_offset)
        return ListedOffset(*entry) if entry is not None else ListedOffset()
    if timestamp == GREATEST_TIME:
        return (yield from _greatest_time(partition, end_offset))
    return _SPECIAL[timestamp](partition, end_offset)


def _greatest_time(partition: Partition, end_offset: int) -> SlicedWork[ListedOffset]:
    """Return the record with the greatest time; none, as in Kafka, if a transaction keeps it from
    read_committed clients, even where they could read others.
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


def _no_offset(partition: Partition, end_offset: int) -> ListedOffset:
    return ListedOffset()


_SPECIAL: dict[int, Callable[[Partition, int], ListedOffset]] = {
    LATEST: _latest,
    EARLIEST: _earliest,
    EARLIEST_LOCAL: _earliest,  # all offsets are local
    LATEST_TIERED: _no_offset,  # none is tiered
    EARLIEST_PENDING_UPLOAD: _no_offset,
}


def segment_starts(partition: Partition, timestamp: int, count: int, now_ms: int) -> list[int]:
    """Return for version 0 at most `count` segment starts, newest first, of segments up to
    `timestamp`.

    The log end counts as a segment written now. Source: Kafka 0.9 Log.getOffsetsBefore.
    """
    log = partition.log
    written = [(max(segment.base, log.start_offset), segment.max_timestamp) for segment in log.segments]
    written.append((log.end_offset, now_ms))
    if timestamp == EARLIEST:
        written = written[:1]
    elif timestamp < 0 and timestamp != LATEST:
        raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in version 0")
    elif timestamp != LATEST:
        written = [(start, last_ms) for start, last_ms in written if last_ms <= timestamp]
    visible = {min(start, partition.high_watermark) for start, _ in written}
    return sorted(visible, reverse=True)[: max(count, 0)]
