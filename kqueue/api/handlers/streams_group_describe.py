"""StreamsGroupDescribe (key 89): state, topology, members and tasks of streams groups (KIP-1071).

Versions 0 to 0:

    0       current and target assignment of each member
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kqueue.api.access import on_each
from kqueue.api.handlers.streams_group_heartbeat import topic_names
from kqueue.api.modern_groups import common_fields, describe_each, refusal_fields, require_visible
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.groups.modern.member import ModernMemberDescription
from kqueue.groups.streams.member import (
    StreamsGroupDescription,
    StreamsMemberMetadata,
    SubtopologyRole,
    TaskRole,
)
from kqueue.groups.streams.topology import InternalTopic, Topology
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages import streams_group_describe as wire
from kqueue.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from kqueue.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TopicInfo

VERSIONS = (0, 0)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one that is denied refuses the group that has it"),
)
ITEM_WEIGHT = 4


def handle(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse | DelayedOperation[StreamsGroupDescribeResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> SlicedWork[StreamsGroupDescribeResponse]:
    requested = request.include_authorized_operations

    def describe(group_id: str, group: StreamsGroupDescription) -> SlicedWork[wire.DescribedGroup]:
        described = wire.DescribedGroup(**common_fields(context, group_id, group, requested=requested))
        if group.topology is not None:
            require_visible(context, topic_names(group.topology))
            described.topology = yield from _topology(group.topology, group.topic_counts)
        for one in group.members:
            described.members.append(_member(one))
            yield None
        return described

    of_group = context.broker.coordinators.groups.streams.describe
    groups = yield from describe_each(request.group_ids, context, GroupType.STREAMS, of_group, describe, _refused)
    return StreamsGroupDescribeResponse(groups=groups)


def error_response(
    request: StreamsGroupDescribeRequest, version: int, error: BaseException
) -> StreamsGroupDescribeResponse:
    """Return `error` for each group."""
    return StreamsGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: BaseException) -> wire.DescribedGroup:
    return wire.DescribedGroup(**refusal_fields(group_id, error))


def _topology(topology: Topology, counts: Mapping[str, int]) -> SlicedWork[wire.DescribedTopology]:
    described = []
    for one in topology.subtopologies:
        described.append(
            wire.DescribedSubtopology(
                subtopology_id=one.id,
                source_topics=list(one.source_topics),
                repartition_sink_topics=list(one.sink_topics),
                state_changelog_topics=[_topic_info(topic, counts) for topic in one.changelog_topics],
                repartition_source_topics=[_topic_info(topic, counts) for topic in one.repartition_topics],
            )
        )
        yield None
    return wire.DescribedTopology(epoch=topology.epoch, subtopologies=described)


def _topic_info(topic: InternalTopic, counts: Mapping[str, int]) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=counts.get(topic.name, topic.partition_count),
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
    )


def _member(one: ModernMemberDescription[StreamsMemberMetadata, SubtopologyRole]) -> wire.Member:
    metadata, current = one.member.metadata, one.member.current
    endpoint = metadata.endpoint
    return wire.Member(
        member_id=one.member.member_id,
        member_epoch=current.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in metadata.tags],
        assignment=_assignment(current.assigned),
        target_assignment=_assignment(one.target),
    )


def _assignment(tasks: Mapping[SubtopologyRole, Collection[int]]) -> wire.Assignment:
    active, standby, warmup = (
        [
            TaskIds(subtopology_id=key.subtopology, partitions=sorted(tasks[key]))
            for key in sorted(tasks)
            if key.role is role
        ]
        for role in TaskRole
    )
    return wire.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
