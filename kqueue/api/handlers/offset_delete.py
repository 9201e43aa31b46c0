"""OffsetDelete (key 47): delete a group's offsets of some partitions (KIP-496).

Responds when the deletions are in the log. Version 0 only.
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError, RequestRefused
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

VERSIONS = (0, 0)
ACCESS = (
    on_group(AclOperation.DELETE),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)
Outcomes = list[RequestRefused | None]


def handle(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | DelayedOperation[OffsetDeleteResponse]:
    """Delete the offsets of each partition that exists and whose topic no member reads."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: OffsetDeleteRequest, context: RequestContext
) -> SlicedWork[OffsetDeleteResponse | DelayedOperation[OffsetDeleteResponse]]:
    response = OffsetDeleteResponse()
    keys: list[tuple[str, int]] = []
    results: list[OffsetDeleteResponsePartition] = []  # the responses for `keys`
    for requested in request.topics:
        is_allowed = context.permits(AclOperation.READ, ResourceType.TOPIC, requested.name)
        topic = context.broker.topics.find(requested.name) if is_allowed else None
        partitions = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            for partition in requested.partitions
        ]
        if partitions:
            response.topics.append(OffsetDeleteResponseTopic(name=requested.name, partitions=partitions))
        for partition in partitions:
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                partition.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
            else:
                keys.append((requested.name, partition.partition_index))
                results.append(partition)
            yield None
        yield None
    try:
        promise = context.broker.coordinators.groups.delete_offsets(request.group_id, keys)
    except KqueueError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    deadline_ms = context.deadline_ms(context.broker.coordinators.groups.config.commit_timeout_ms)
    return wait_for(promise, lambda promise: _respond(response, results, promise), deadline_ms)


def _respond(
    response: OffsetDeleteResponse, results: list[OffsetDeleteResponsePartition], promise: Promise[Outcomes]
) -> OffsetDeleteResponse:
    if not promise.done:
        return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if promise.error is not None:
        return OffsetDeleteResponse(error_code=code_of(promise.error))
    for result, error in zip(results, promise.result(), strict=True):
        result.error_code = code_of(error)
    return response
