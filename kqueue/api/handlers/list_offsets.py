"""ListOffsets: the offset at a time, or at one of the places that negative numbers name.

An answer that depends on the high watermark counts what was appended before the request: it waits
for the flush of that (`visibility`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, OffsetNotAvailable, UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.high_watermark import UncommittedEnds
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

VERSIONS = (0, 11)
VERSION_ONE_OFFSET = 1  # version 0 answers a list of offsets where segments begin
VERSION_EPOCHS = 4
VERSION_NOT_AVAILABLE = 5
"""Older clients get LEADER_NOT_AVAILABLE in place of OFFSET_NOT_AVAILABLE, as from Kafka; both are
retriable.
"""
FLUSH_WAIT_MS = 10_000
"""How long an answer waits for a flush where the request names no time of its own (version 10 and
later may).
"""
READ_COMMITTED = 1
LATEST = -1
EARLIEST = -2
GREATEST_TIME = -3
NONE = -1


class Place(NamedTuple):
    """An offset, its record's time in ms, its leader epoch; -1 where there is no such thing."""

    timestamp: int = NONE
    offset: int = NONE
    leader_epoch: int = NONE


def handle(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | DelayedOperation[ListOffsetsResponse]:
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ListOffsetsRequest, context: RequestContext
) -> SlicedWork[ListOffsetsResponse | DelayedOperation[ListOffsetsResponse]]:
    ends = UncommittedEnds(())
    if context.broker.flush_before_visible:
        for partition in _bounded_by_high_watermark(request, context):
            ends.add(partition)
            yield None
    if ends.all_committed():
        return (yield from _respond(request, context, ends))
    return DelayedOperation(
        ends.keys,
        context.change_deadline_ms(request.timeout_ms if request.timeout_ms > 0 else FLUSH_WAIT_MS),
        lambda expired: (
            in_slices(context, _respond(request, context, ends)) if expired or ends.all_committed() else None
        ),
    )


def _bounded_by_high_watermark(request: ListOffsetsRequest, context: RequestContext) -> Iterator[Partition]:
    """The partitions of which the request asks for something that records at the end of the log may
    change.
    """
    for topic in request.topics:
        found = context.broker.topics.find(topic.name)
        for one in topic.partitions:
            depends = one.timestamp >= 0 or one.timestamp in (LATEST, GREATEST_TIME)
            if depends and found is not None and 0 <= one.partition_index < len(found.partitions):
                yield found.partitions[one.partition_index]


def _respond(
    request: ListOffsetsRequest, context: RequestContext, ends: UncommittedEnds
) -> SlicedWork[ListOffsetsResponse]:
    topics = []
    for topic in request.topics:
        topics.append((yield from _topic(topic, request, context, ends)))
        yield None
    return ListOffsetsResponse(topics=topics)


def error_response(request: ListOffsetsRequest, version: int, error: BaseException) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=[_failed(one, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _failed(asked: ListOffsetsPartition, error: BaseException) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code_of(error))


def _topic(
    topic: ListOffsetsTopic, request: ListOffsetsRequest, context: RequestContext, ends: UncommittedEnds
) -> SlicedWork[ListOffsetsTopicResponse]:
    counts = Counter(one.partition_index for one in topic.partitions)
    answers = []
    for one in topic.partitions:
        try:
            if counts[one.partition_index] > 1:
                raise InvalidRequest(f"partition {topic.name}-{one.partition_index} stands twice in the request")
            answers.append((yield from _answer(topic.name, one, request, context, ends)))
        except OffsetNotAvailable as error:
            answers.append(_failed(one, error))
            if context.api_version < VERSION_NOT_AVAILABLE:
                answers[-1].error_code = ErrorCode.LEADER_NOT_AVAILABLE
        except KqueueError as error:
            answers.append(_failed(one, error))
        yield None
    return ListOffsetsTopicResponse(name=topic.name, partitions=answers)


def _answer(
    name: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, context: RequestContext, ends: UncommittedEnds
) -> SlicedWork[ListOffsetsPartitionResponse]:
    partition = context.broker.topics.partition(name, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    ends.check(partition)
    if context.api_version < VERSION_ONE_OFFSET:
        offsets = _segment_starts(partition, asked.timestamp, asked.max_num_offsets, context.broker.clock.wall_ms())
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, old_style_offsets=offsets)
    end_offset = partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark
    place = yield from _place(partition, asked.timestamp, end_offset, context.api_version)
    answer = ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=place.timestamp, offset=place.offset
    )
    if context.api_version >= VERSION_EPOCHS:
        answer.leader_epoch = place.leader_epoch
    return answer


def _place(partition: Partition, timestamp: int, end_offset: int, version: int) -> SlicedWork[Place]:
    if timestamp >= 0:
        found = yield from partition.log.offset_for_time(timestamp, end_offset)
        return Place(*found) if found is not None else Place()
    version_min, place = _PLACES.get(timestamp, (VERSIONS[1] + 1, _nowhere))
    if version < version_min:
        raise UnsupportedVersion(f"the place {timestamp} is not known in version {version}")
    if timestamp == GREATEST_TIME:
        found = yield from partition.log.latest_timestamp(end_offset)
        return Place(*found) if found is not None else Place()
    return place(partition, end_offset)


def _latest(partition: Partition, end_offset: int) -> Place:
    return Place(offset=end_offset, leader_epoch=partition.leader_epoch)


def _earliest(partition: Partition, end_offset: int) -> Place:
    start = partition.log_start_offset
    is_empty = start == partition.log_end_offset  # then the first record will be of the epoch that is now
    return Place(
        offset=start, leader_epoch=partition.leader_epoch if is_empty else partition.log.epochs.epoch_at(start)
    )


def _nowhere(partition: Partition, end_offset: int) -> Place:
    return Place()


_PLACES: dict[int, tuple[int, Callable[[Partition, int], Place]]] = {
    LATEST: (0, _latest),
    EARLIEST: (0, _earliest),
    GREATEST_TIME: (7, _nowhere),  # looked for in the records
    -4: (8, _earliest),  # the earliest that is here and not in a remote tier: all of it is here
    -5: (9, _nowhere),  # the latest in a remote tier: there is none
    -6: (11, _nowhere),  # the earliest that waits to be copied to a remote tier
}
"""Negative timestamps: the version that knows each first, and what it means. Source: KIP-79,
KIP-734, KIP-405, KIP-1005, KIP-1023.
"""


def _segment_starts(partition: Partition, timestamp: int, count: int, now_ms: int) -> list[int]:
    """Version 0: at most `count` offsets, newest first, where segments begin that hold nothing
    later than `timestamp`.

    The end of the log counts as a segment written now. Source: Kafka 0.9 Log.getOffsetsBefore.
    """
    log = partition.log
    written = [(max(segment.base, log.start_offset), segment.max_timestamp) for segment in log.segments]
    written.append((log.end_offset, now_ms))
    if timestamp == EARLIEST:
        written = written[:1]
    elif timestamp < 0 and timestamp != LATEST:
        raise UnsupportedVersion(f"the place {timestamp} is not known in version 0")
    elif timestamp != LATEST:
        written = [(start, last_ms) for start, last_ms in written if last_ms <= timestamp]
    visible = {min(start, partition.high_watermark) for start, _ in written}
    return sorted(visible, reverse=True)[: max(count, 0)]
