"""AlterPartitionReassignments (key 45): move partitions between brokers, or cancel it (KIP-455).

Versions 0 to 1:

    0       replicas per partition; null cancels
    1       whether the number of replicas may change (KIP-860)

The response comes when the moves are stored; the brokers then copy, and the controller finishes
them. A single broker accepts its own id only, which changes nothing.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.partition_outcomes import Started, change_all, rows_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.cluster.partition_changes import Outcomes
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

VERSIONS = (0, 1)
ACCESS = (on_cluster(AclOperation.ALTER),)
LATE = "the moves were not stored in time; they may still begin"


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | DelayedOperation[AlterPartitionReassignmentsResponse]:
    """Return of each partition whether its move has begun, or why not."""

    def start(topic: ReassignableTopic) -> SlicedWork[Promise[Outcomes]]:
        changes = [(row.partition_index, row.replicas) for row in topic.partitions]
        same_factor = not request.allow_replication_factor_change
        return context.broker.replicas.changes.reassign(topic.name, changes, same_factor=same_factor)

    def respond(topics: list[ReassignableTopicResponse]) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=topics,
        )

    return in_slices(context, change_all(context, request.topics, start, _topic, respond, request.timeout_ms))


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, error: BaseException
) -> AlterPartitionReassignmentsResponse:
    """Return `error` for each partition as well: Java's client looks for it there."""
    code, message = code_of(error), message_of(error)
    topics = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=message
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=topics)


def _topic(topic: ReassignableTopic, outcome: Started) -> SlicedWork[ReassignableTopicResponse]:
    rows = yield from rows_of(topic.partitions, outcome, LATE, _row)
    return ReassignableTopicResponse(name=topic.name, partitions=rows)


def _row(partition: ReassignablePartition, error: KqueueError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index, error_code=code_of(error), error_message=message_of(error)
    )
