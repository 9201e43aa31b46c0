"""ListOffsets (key 2): the offset at a timestamp, or one that a negative timestamp stands for.

A response that depends on the high watermark first waits until it covers what was appended before
the request (`broker.replicas.uncommitted_ends`). Followers get the log end at once.

Versions 0 to 11:

    0       a list of segment starts
    1       one offset and its timestamp (KIP-79)
    2       isolation level (KIP-98); throttle time
    3       clients throttle themselves (KIP-219)
    4       leader epochs (KIP-320)
    5       OFFSET_NOT_AVAILABLE; before, LEADER_NOT_AVAILABLE (KIP-207)
    6       flexible encoding (KIP-482)
    7       -3: the greatest timestamp (KIP-734)
    8       -4: the earliest local offset (KIP-405)
    9       -5: the latest tiered offset (KIP-1005)
    10      timeout (KIP-1075)
    11      -6: the earliest offset to upload (KIP-1023)

Times are looked up in the tier first (`_look_up`), within `remote.list.offsets.request.timeout.ms`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.isolation import is_read_committed
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, OffsetNotAvailable, UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    GREATEST_TIME,
    LATEST,
    LATEST_TIERED,
    find_offset,
    segment_starts,
)
from kqueue.broker.fetch.tier_lookups import TierLookups
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.uncommitted_ends import UncommittedEnds
from kqueue.broker.tier_config import LIST_OFFSETS_WAIT_MS
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
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
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "or CLUSTER_ACTION of the cluster, for followers"),)
VERSION_ONE_OFFSET = 1  # version 0 returns a list of segment starts
VERSION_EPOCHS = 4
VERSION_NOT_AVAILABLE = 5
"""Older clients get LEADER_NOT_AVAILABLE for OFFSET_NOT_AVAILABLE, as from Kafka; both are
retriable.
"""
FLUSH_WAIT_MS = 10_000
"""Longest wait for the high watermark if the request has no timeout (versions below 10)."""
_SPECIAL_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    GREATEST_TIME: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamps, and the first version that knows each."""


def handle(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | DelayedOperation[ListOffsetsResponse]:
    """Respond when the high watermark covers what was appended before the request."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ListOffsetsRequest, context: RequestContext
) -> SlicedWork[ListOffsetsResponse | DelayedOperation[ListOffsetsResponse]]:
    ends = UncommittedEnds(())
    if request.replica_id >= 0:  # a follower asks for the log, committed or not
        return (yield from _look_up(request, context, ends))
    if context.broker.replicas.host.flush_before_visible or not context.broker.metadata.cluster.is_alone:
        for partition in _bounded_by_high_watermark(request, context):
            ends.add(partition)
            yield None
    if ends.all_committed():
        return (yield from _look_up(request, context, ends))
    return DelayedOperation(
        ends.keys,
        context.change_deadline_ms(request.timeout_ms if request.timeout_ms > 0 else FLUSH_WAIT_MS),
        lambda expired: (
            in_slices(context, _look_up(request, context, ends)) if expired or ends.all_committed() else None
        ),
    )


def _bounded_by_high_watermark(request: ListOffsetsRequest, context: RequestContext) -> Iterator[Partition]:
    """Yield the partitions led here whose requested offset depends on the high watermark."""
    for topic in request.topics:
        known_topic = None
        if topic.partitions and context.describes(topic.name):
            known_topic = context.broker.topics.find(topic.name)
        for partition in topic.partitions:
            depends = partition.timestamp >= 0 or partition.timestamp in (LATEST, GREATEST_TIME)
            if depends and known_topic is not None and 0 <= partition.partition_index < len(known_topic.partitions):
                known_partition = known_topic.partitions[partition.partition_index]
                if known_partition.is_leader:
                    yield known_partition


def _look_up(
    request: ListOffsetsRequest, context: RequestContext, ends: UncommittedEnds
) -> SlicedWork[ListOffsetsResponse | DelayedOperation[ListOffsetsResponse]]:
    """Look up times in the tier, in jobs, then in the local logs."""
    broker = context.broker
    lookups = TierLookups(broker.scheduler.purgatory)
    for partition, timestamp in () if broker.tier is None else _looked_up_by_time(request, context):
        with contextlib.suppress(KqueueError):  # the local look-up answers with it
            lookups.start(partition, timestamp)
        yield None
    if not lookups:
        return (yield from _respond(request, context, ends, lookups))
    wait_ms = broker.config[LIST_OFFSETS_WAIT_MS]
    return DelayedOperation(
        (lookups,),
        context.change_deadline_ms(min(request.timeout_ms, wait_ms) if request.timeout_ms > 0 else wait_ms),
        lambda expired: (
            in_slices(context, _respond(request, context, ends, lookups)) if expired or lookups.all_ended else None
        ),
    )


def _looked_up_by_time(request: ListOffsetsRequest, context: RequestContext) -> Iterator[tuple[Partition, int]]:
    """Yield the partitions led here in which a time is looked for."""
    for topic in request.topics:
        known_topic = context.broker.topics.find(topic.name) if context.describes(topic.name) else None
        if known_topic is None or not known_topic.log_config.tiered:
            continue
        for partition in topic.partitions:
            if partition.timestamp >= 0 and 0 <= partition.partition_index < len(known_topic.partitions):
                known_partition = known_topic.partitions[partition.partition_index]
                if known_partition.is_leader:
                    yield known_partition, partition.timestamp


def _respond(
    request: ListOffsetsRequest, context: RequestContext, ends: UncommittedEnds, lookups: TierLookups
) -> SlicedWork[ListOffsetsResponse]:
    topics = []
    for topic in request.topics:
        topics.append((yield from _topic_response(topic, request, context, ends, lookups)))
        yield None
    return ListOffsetsResponse(topics=topics)


def error_response(request: ListOffsetsRequest, version: int, error: BaseException) -> ListOffsetsResponse:
    """Return `error` for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_failed(partition, error) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _failed(requested: ListOffsetsPartition, error: BaseException) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code_of(error))


def _topic_response(
    topic: ListOffsetsTopic,
    request: ListOffsetsRequest,
    context: RequestContext,
    ends: UncommittedEnds,
    lookups: TierLookups,
) -> SlicedWork[ListOffsetsTopicResponse]:
    is_follower = request.replica_id >= 0 and _is_broker(context)
    if not (is_follower or context.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)):
        denied = TopicAuthorizationFailed("the client may not describe this topic")
        return ListOffsetsTopicResponse(
            name=topic.name, partitions=(yield from collect(lambda one: _failed(one, denied), topic.partitions))
        )
    counts = Counter(partition.partition_index for partition in topic.partitions)
    responses = []
    for partition in topic.partitions:
        try:
            if counts[partition.partition_index] > 1:
                raise InvalidRequest(f"partition {topic.name}-{partition.partition_index} is twice in the request")
            responses.append((yield from _partition_response(topic.name, partition, request, context, ends, lookups)))
        except OffsetNotAvailable as error:
            responses.append(_failed(partition, error))
            if context.api_version < VERSION_NOT_AVAILABLE:
                responses[-1].error_code = ErrorCode.LEADER_NOT_AVAILABLE
        except KqueueError as error:
            responses.append(_failed(partition, error))
        yield None
    return ListOffsetsTopicResponse(name=topic.name, partitions=responses)


def _is_broker(context: RequestContext) -> bool:
    return context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)


def _partition_response(
    name: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    ends: UncommittedEnds,
    lookups: TierLookups,
) -> SlicedWork[ListOffsetsPartitionResponse]:
    partition = context.broker.topics.partition(name, requested.partition_index)
    partition.check_leader_epoch(requested.current_leader_epoch)
    partition.check_leader()
    ends.check(partition)
    if context.api_version < VERSION_ONE_OFFSET:
        offsets = segment_starts(
            partition, requested.timestamp, requested.max_num_offsets, context.broker.scheduler.clock.wall_ms()
        )
        return ListOffsetsPartitionResponse(partition_index=requested.partition_index, old_style_offsets=offsets)
    if request.replica_id >= 0:
        end_offset = partition.log_end_offset
    else:
        read_committed = is_read_committed(request.isolation_level)
        end_offset = partition.last_stable_offset if read_committed else partition.high_watermark
    _check_timestamp(requested.timestamp, context.api_version)
    position = yield from find_offset(partition, requested.timestamp, end_offset, lookups)
    response = ListOffsetsPartitionResponse(
        partition_index=requested.partition_index, timestamp=position.timestamp, offset=position.offset
    )
    if context.api_version >= VERSION_EPOCHS:
        response.leader_epoch = position.leader_epoch
    return response


def _check_timestamp(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < _SPECIAL_SINCE.get(timestamp, VERSIONS[1] + 1):
        raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in version {version}")
