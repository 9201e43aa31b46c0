"""OffsetDelete: take back what a group has committed for some partitions (KIP-496); answered when
that is in the log.
"""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError, RequestRefused
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

VERSIONS = (0, 0)
Answers = list[RequestRefused | None]


def handle(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | DelayedOperation[OffsetDeleteResponse]:
    """Partitions that don't exist, or whose topic members of the group read, are refused one by
    one.
    """
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetDeleteRequest, context: RequestContext
) -> SlicedWork[OffsetDeleteResponse | DelayedOperation[OffsetDeleteResponse]]:
    response = OffsetDeleteResponse()
    keys: list[tuple[str, int]] = []
    results: list[OffsetDeleteResponsePartition] = []  # where the answers to `keys` go
    for asked in request.topics:
        topic = context.broker.topics.find(asked.name)
        partitions = [OffsetDeleteResponsePartition(partition_index=one.partition_index) for one in asked.partitions]
        response.topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=partitions))
        for one in partitions:
            if topic is None or not 0 <= one.partition_index < len(topic.partitions):
                one.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                keys.append((asked.name, one.partition_index))
                results.append(one)
            yield None
        yield None
    try:
        promise = context.broker.groups.delete_offsets(request.group_id, keys)
    except KqueueError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    deadline_ms = context.deadline_ms(context.broker.groups.config.commit_timeout_ms)
    return wait_for(promise, lambda promise: _respond(response, results, promise), deadline_ms)


def _respond(
    response: OffsetDeleteResponse, results: list[OffsetDeleteResponsePartition], promise: Promise[Answers]
) -> OffsetDeleteResponse:
    if not promise.done:
        return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if promise.error is not None:
        return OffsetDeleteResponse(error_code=code_of(promise.error))
    for one, error in zip(results, promise.result(), strict=True):
        one.error_code = code_of(error)
    return response
