"""OffsetForLeaderEpoch (key 23): the end offset of an epoch (KIP-101, KIP-320).

Clients detect truncation with it.

Versions 0 to 4:

    0       the end offset
    1       the epoch it belongs to (KIP-279)
    2       the client's leader epoch is checked (KIP-320); throttle time
    3       replica ids
    4       flexible encoding (KIP-482)
"""

from __future__ import annotations

from functools import partial

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

VERSIONS = (0, 4)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "or CLUSTER_ACTION of the cluster"),)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | DelayedOperation[OffsetForLeaderEpochResponse]:
    """Return the end offset of the requested epoch in each partition."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> SlicedWork[OffsetForLeaderEpochResponse]:
    topics = []
    is_broker = context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    for topic in request.topics:
        if not (is_broker or context.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)):
            denied = TopicAuthorizationFailed("the client may not describe this topic")
            topics.append((yield from _failed(topic, denied)))
            continue
        partitions = yield from collect(partial(_end, topic.topic, context), topic.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield None
    return OffsetForLeaderEpochResponse(topics=topics)


def error_response(
    request: OffsetForLeaderEpochRequest, version: int, error: BaseException
) -> OffsetForLeaderEpochResponse:
    """Return `error` for every partition."""
    return OffsetForLeaderEpochResponse(topics=[run_to_end(_failed(topic, error)) for topic in request.topics])


def _failed(topic: OffsetForLeaderTopic, error: BaseException) -> SlicedWork[OffsetForLeaderTopicResult]:
    code = code_of(error)
    partitions = yield from collect(
        lambda partition: EpochEndOffset(error_code=code, partition=partition.partition), topic.partitions
    )
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)


def _end(topic: str, context: RequestContext, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = context.broker.topics.partition(topic, requested.partition)
        partition.check_leader_epoch(requested.current_leader_epoch)
        partition.check_leader()
        epoch, end_offset = partition.epoch_end(requested.leader_epoch)
        return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)
    except KqueueError as error:
        return EpochEndOffset(error_code=code_of(error), partition=requested.partition)
