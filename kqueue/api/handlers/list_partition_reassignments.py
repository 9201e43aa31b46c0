"""ListPartitionReassignments (key 46): the partitions that are being moved (KIP-455).

Version 0: of the partitions named, or null for all. A partition that is not, or does not exist, is
left out, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

VERSIONS = (0, 0)
ACCESS = (on_cluster(AclOperation.DESCRIBE),)


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse | DelayedOperation[ListPartitionReassignmentsResponse]:
    """Return the partitions with replicas to add or to remove."""
    return in_slices(context, _list(request, context))


def _list(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> SlicedWork[ListPartitionReassignmentsResponse]:
    response = ListPartitionReassignmentsResponse(error_message=None)
    topics = context.broker.topics
    if context.broker.metadata.cluster.is_alone:
        return response
    wanted: list[tuple[Topic | None, Iterable[int] | None]] = (
        [(topic, None) for topic in topics]
        if request.topics is None
        else [(topics.find(row.name), dict.fromkeys(row.partition_indexes)) for row in request.topics]
    )
    for topic, indexes in wanted:
        if topic is not None:
            rows = _moves(topic, range(len(topic.partitions)) if indexes is None else indexes)
            if rows:
                response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=rows))
        yield None
    return response


def _moves(topic: Topic, indexes: Iterable[int]) -> list[OngoingPartitionReassignment]:
    rows = []
    for index in indexes:
        if 0 <= index < len(topic.partitions):
            partition = topic.partitions[index].registration
            if partition.adding or partition.removing:
                rows.append(
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding),
                        removing_replicas=list(partition.removing),
                    )
                )
    return rows
