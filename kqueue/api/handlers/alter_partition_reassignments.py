"""AlterPartitionReassignments (key 45): move partitions between brokers, or cancel it (KIP-455).

Versions 0 to 1:

    0       replicas per partition; null cancels
    1       whether the number of replicas may change (KIP-860)

There is one broker: the same replica again is no change and succeeds, any other list is refused,
and there is never a move to cancel.
"""

from __future__ import annotations

from kqueue.api.errors import CodedError, code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replica_assignment import check_replicas
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

VERSIONS = (0, 1)


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | DelayedOperation[AlterPartitionReassignmentsResponse]:
    """Return for each partition whether it is where the request wants it."""
    return in_slices(context, _alter(request, context))


def _alter(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> SlicedWork[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        for requested in topic.partitions:
            result.partitions.append(_result(topic.name, requested, context))
            yield None
        response.responses.append(result)
        yield None
    return response


def _result(topic: str, requested: ReassignablePartition, context: RequestContext) -> ReassignablePartitionResponse:
    error: KqueueError | None = None
    try:
        _check(topic, requested, context)
    except KqueueError as refused:
        error = refused
    return ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_code=code_of(error), error_message=message_of(error)
    )


def _check(topic: str, requested: ReassignablePartition, context: RequestContext) -> None:
    context.broker.topics.partition(topic, requested.partition_index)
    if requested.replicas is None:
        raise CodedError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic}-{requested.partition_index} is not being moved"
        )
    check_replicas(requested.replicas, context.broker.node_id)
