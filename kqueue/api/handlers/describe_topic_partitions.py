"""DescribeTopicPartitions (key 75): topics and partitions, page by page (KIP-966).

Version 0: topics in the order of their names; no topic means all. A page holds at most
`response_partition_limit` partitions, and at most `max.request.partition.size.limit`. Its cursor
is where the next page begins.

A cursor before the first partition is refused, and so is one whose topic is not among those named.
The last known leader of a partition without in-sync and eligible replicas is its last known ELR.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import NOT_REQUESTED, authorized_operations
from kqueue.api.cluster_view import ClusterView
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, UnknownTopicOrPartition
from kqueue.base.names import check_topic
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.replication.registrations import NO_LEADER
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

VERSIONS = (0, 0)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "left out of all topics"),)


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse | DelayedOperation[DescribeTopicPartitionsResponse]:
    """Return one page."""
    limit = min(request.response_partition_limit, context.broker.config["max.request.partition.size.limit"])
    return in_slices(context, _page(request, context, max(limit, 1)))


def error_response(
    request: DescribeTopicPartitionsRequest, version: int, error: BaseException
) -> DescribeTopicPartitionsResponse:
    """Return `error` for every topic named."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code_of(error), name=topic.name) for topic in request.topics
        ]
    )


def _page(
    request: DescribeTopicPartitionsRequest, context: RequestContext, room: int
) -> SlicedWork[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    cursor, view = request.cursor, context.cluster_view()
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    for name in _names(request, context):
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        decide = context.permits if request.topics else context.allows
        if not decide(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            if request.topics:
                denied.append(_failed(name, TopicAuthorizationFailed(), NOT_REQUESTED))
            yield None
            continue
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = context.broker.topics.find(name)
        if topic is None:
            if request.topics:  # else it was deleted since the page began
                response.topics.append(_unknown(name, context))
            yield None
            continue
        partitions = topic.partitions[start : start + room]
        rows = yield from collect(lambda partition: _partition(partition, view), partitions)
        response.topics.append(_known(topic, rows, context))
        room -= len(rows)
        if start + len(rows) < len(topic.partitions) and room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=start + len(rows))
            break
        yield None
    response.topics += denied
    return response


def _names(request: DescribeTopicPartitionsRequest, context: RequestContext) -> Iterable[str]:
    """Return the topics of the request from the cursor on. Raises InvalidRequest: an impossible
    cursor.
    """
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics}) if request.topics else context.broker.topics.names()
    if cursor is None:
        return names
    if cursor.partition_index < 0:
        raise InvalidRequest(f"a cursor begins at partition 0 or above, not {cursor.partition_index}")
    names = names[bisect_left(names, cursor.topic_name) :]
    if request.topics and cursor.topic_name not in names[:1]:
        raise InvalidRequest(f"the cursor's topic {cursor.topic_name!r} is not one of the topics of the request")
    return names


def _unknown(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic(name)
        error: KqueueError = UnknownTopicOrPartition(f"there is no topic {name!r}")
    except KqueueError as invalid:
        error = invalid
    return _failed(name, error, authorized_operations(context, ResourceType.TOPIC, name))


def _failed(name: str, error: KqueueError, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code_of(error), name=name, topic_authorized_operations=operations
    )


def _known(
    topic: Topic, partitions: list[DescribeTopicPartitionsResponsePartition], context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, topic.name),
    )


def _partition(partition: Partition, view: ClusterView) -> DescribeTopicPartitionsResponsePartition:
    error, leader, leader_epoch, replicas, isr, offline, registration = view.partition(partition)
    last = registration.last_known_leader
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        eligible_leader_replicas=list(registration.elr),
        last_known_elr=[*registration.last_known_elr] if last == NO_LEADER else [last, *registration.last_known_elr],
        offline_replicas=offline,
    )
