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

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

VERSIONS = (0, 4)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | DelayedOperation[OffsetForLeaderEpochResponse]:
    """Return the end offset of the requested epoch in each partition."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> SlicedWork[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        partitions = yield from collect(partial(_end, topic.topic, context), topic.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield None
    return OffsetForLeaderEpochResponse(topics=topics)


def error_response(
    request: OffsetForLeaderEpochRequest, version: int, error: BaseException
) -> OffsetForLeaderEpochResponse:
    """Return `error` for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=code_of(error), partition=partition.partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end(topic: str, context: RequestContext, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = context.broker.topics.partition(topic, requested.partition)
        partition.check_leader_epoch(requested.current_leader_epoch)
        partition.check_leader()
        epoch, end_offset = partition.epoch_end(requested.leader_epoch)
        return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)
    except KqueueError as error:
        return EpochEndOffset(error_code=code_of(error), partition=requested.partition)
