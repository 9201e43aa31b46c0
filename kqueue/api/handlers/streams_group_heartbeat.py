"""StreamsGroupHeartbeat (key 88): join, stay in and leave a streams group (KIP-1071).

Versions 0 to 0:

    0       topology, tasks, endpoints

Not emulated, as in Kafka 4.3: static members, offsets of tasks, patterns of source topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import answer_heartbeat, check_served
from kqueue.api.request_context import RequestContext, require_topics
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.groups.streams.member import (
    EndpointPartitions,
    MemberEndpoint,
    Status,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    TaskRole,
    tasks_of,
)
from kqueue.groups.streams.records import subtopology
from kqueue.groups.streams.topology import InternalTopic, Topology
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages import streams_group_heartbeat as wire
from kqueue.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

VERSIONS = (0, 0)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one topic of the topology that is denied refuses the request"),
    on_each(AclOperation.CREATE, ResourceType.TOPIC, "for internal topics; or CREATE of the cluster. A status tells"),
)
ITEM_WEIGHT = 4


def handle(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsGroupHeartbeatResponse | DelayedOperation[StreamsGroupHeartbeatResponse]:
    """Respond when what the heartbeat changes is in the log."""

    def send() -> Promise[StreamsHeartbeatResult]:
        check_served(context, GroupType.STREAMS)
        heartbeat = _heartbeat(request, context)
        if heartbeat.topology is not None:
            require_topics(context, AclOperation.DESCRIBE, topic_names(heartbeat.topology))
        return context.broker.coordinators.groups.streams.heartbeat(heartbeat)

    return answer_heartbeat(
        context,
        send,
        lambda result: _respond(request, context, result),
        lambda error: error_response(request, context.api_version, error),
    )


def error_response(
    request: StreamsGroupHeartbeatRequest, version: int, error: BaseException
) -> StreamsGroupHeartbeatResponse:
    """Return `error`."""
    return StreamsGroupHeartbeatResponse(error_code=code_of(error), error_message=message_of(error))


def _heartbeat(request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsHeartbeat:
    sent, endpoint, tags = request.topology, request.user_endpoint, request.client_tags
    topology = None
    if sent is not None:
        topology = Topology(sent.epoch, tuple(subtopology(each) for each in sent.subtopologies))
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=topology,
        active=_tasks(request.active_tasks),
        standby=_tasks(request.standby_tasks),
        warmup=_tasks(request.warmup_tasks),
        process_id=request.process_id,
        endpoint=None if endpoint is None else MemberEndpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        has_offsets=request.task_offsets is not None,
        has_end_offsets=request.task_end_offsets is not None,
        has_patterns=sent is not None and any(each.source_topic_regex for each in sent.subtopologies),
        shutdown=request.shutdown_application,
        client_id=context.client_id or "",
        client_host=context.client_host,
    )


def topic_names(topology: Topology) -> Iterator[str]:
    """Yield the topics of a topology, some of them several times."""
    for one in topology.subtopologies:
        yield from one.source_topics
        yield from one.sink_topics
        for topic in (*one.repartition_topics, *one.changelog_topics):
            yield topic.name


def _tasks(sent: Iterable[wire.TaskIds] | None) -> dict[str, frozenset[int]] | None:
    if sent is None:
        return None
    tasks: dict[str, frozenset[int]] = {}
    for each in sent:
        tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return tasks


def _respond(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, result: StreamsHeartbeatResult
) -> StreamsGroupHeartbeatResponse:
    statuses = result.statuses
    if result.missing:
        topics, creatable = context.broker.coordinators.streams_topics, _creatable(result.missing, context)
        statuses = tuple(_with_failures(each, topics.failures(creatable)) for each in statuses)
        topics.create(request.group_id, creatable)
        if len(creatable) < len(result.missing):
            denied = ", ".join(topic.name for topic in result.missing if topic not in creatable)
            detail = f"Unauthorized to CREATE on topics {denied}."
            statuses = (*statuses, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail))
    response = StreamsGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        status=[wire.Status(status_code=each.code, status_detail=each.detail) for each in statuses],
        endpoint_information_epoch=result.endpoint_epoch,
    )
    if result.assigned is not None:
        response.active_tasks = task_ids(tasks_of(result.assigned, TaskRole.ACTIVE))
        response.standby_tasks = task_ids(tasks_of(result.assigned, TaskRole.STANDBY))
        response.warmup_tasks = task_ids(tasks_of(result.assigned, TaskRole.WARMUP))
    if result.endpoints is not None:
        response.partitions_by_user_endpoint = [_endpoint(each) for each in result.endpoints]
    return response


def _creatable(missing: Sequence[InternalTopic], context: RequestContext) -> Sequence[InternalTopic]:
    """Return the internal topics that the client may have created."""
    if not missing or context.allows(AclOperation.CREATE, ResourceType.CLUSTER):
        return missing
    allowed = context.allowed(AclOperation.CREATE, ResourceType.TOPIC, (topic.name for topic in missing))
    return [topic for topic in missing if topic.name in allowed]


def _with_failures(status: Status, failures: list[str]) -> Status:
    if status.code is not StatusCode.MISSING_INTERNAL_TOPICS or not failures:
        return status
    return status._replace(detail=f"{status.detail}; Creation failed: {'; '.join(failures)}.")


def task_ids(tasks: Mapping[str, list[int]]) -> list[wire.TaskIds]:
    """Return tasks by subtopology in the form of the protocol."""
    return [wire.TaskIds(subtopology_id=one, partitions=indexes) for one, indexes in tasks.items()]


def _endpoint(each: EndpointPartitions) -> wire.EndpointToPartitions:
    return wire.EndpointToPartitions(
        user_endpoint=wire.Endpoint(host=each.endpoint.host, port=each.endpoint.port),
        active_partitions=_partitions(each.active),
        standby_partitions=_partitions(each.standby),
    )


def _partitions(by_topic: Mapping[str, list[int]]) -> list[wire.TopicPartition]:
    return [wire.TopicPartition(topic=name, partitions=indexes) for name, indexes in by_topic.items()]
