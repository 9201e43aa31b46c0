"""Encodes and decodes the records of streams groups in `__consumer_offsets`, as Kafka 4.3 does.

`log.streams_schemas` lists the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kqueue.groups.log.modern_records import read_value, versioned_value
from kqueue.groups.log.streams_schemas import (
    CopartitionIndexes,
    CurrentTasks,
    EndpointRecord,
    InternalTopicInfo,
    KeyAndValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
    SubtopologyRecord,
    TargetTasks,
)
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.modern.records import (
    GroupEpoch,
    ModernRecords,
    RecordType,
    assignment_epochs,
    read_target_epoch,
    target_epoch_value,
)
from kqueue.groups.streams.member import (
    MemberEndpoint,
    OwnedTasks,
    StreamsMemberMetadata,
    SubtopologyRole,
    TaskAssignment,
    TaskRole,
)
from kqueue.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology

STATE_NUMBERS = {
    ModernMemberState.STABLE: 1,
    ModernMemberState.UNREVOKED_PARTITIONS: 2,
    ModernMemberState.UNRELEASED_PARTITIONS: 3,
    ModernMemberState.UNKNOWN: 127,
}
"""Other numbers than in the records of consumer groups. Source: Kafka streams.MemberState."""
_STATES = {number: state for state, number in STATE_NUMBERS.items()}


def epoch_value(epoch: GroupEpoch) -> bytes:
    """Return the value of a group's epoch."""
    return versioned_value(
        StreamsGroupMetadataValue(
            epoch=epoch.epoch,
            metadata_hash=epoch.metadata_hash,
            validated_topology_epoch=epoch.validated_topology_epoch,
            last_assignment_configs=_key_values(epoch.configs),
        )
    )


def read_epoch(value: bytes) -> GroupEpoch:
    """Return a group's epoch."""
    read = read_value(StreamsGroupMetadataValue, value)
    configs = _pairs(read.last_assignment_configs or ())
    return GroupEpoch(read.epoch, read.metadata_hash, read.validated_topology_epoch, configs)


def metadata_value(metadata: StreamsMemberMetadata) -> bytes:
    """Return the value of what a member sent."""
    endpoint = metadata.endpoint
    return versioned_value(
        StreamsGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            topology_epoch=metadata.topology_epoch,
            process_id=metadata.process_id,
            user_endpoint=None if endpoint is None else EndpointRecord(host=endpoint.host, port=endpoint.port),
            client_tags=_key_values(metadata.tags),
        )
    )


def read_metadata(value: bytes) -> StreamsMemberMetadata:
    """Return what a member sent."""
    read = read_value(StreamsGroupMemberMetadataValue, value)
    endpoint = read.user_endpoint
    return StreamsMemberMetadata(
        read.instance_id,
        read.rack_id,
        read.client_id,
        read.client_host,
        read.rebalance_timeout_ms,
        read.topology_epoch,
        read.process_id,
        None if endpoint is None else MemberEndpoint(endpoint.host, endpoint.port),
        _pairs(read.client_tags),
    )


def target_value(assignment: TaskAssignment) -> bytes:
    """Return the value of a member's target assignment."""
    roles: dict[TaskRole, list[TargetTasks]] = {role: [] for role in TaskRole}
    for each in sorted(assignment):
        tasks = TargetTasks(subtopology_id=each.subtopology, partitions=sorted(assignment[each]))
        roles[each.role].append(tasks)
    active, standby, warmup = roles.values()
    return versioned_value(
        StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    )


def read_target(value: bytes) -> dict[SubtopologyRole, frozenset[int]]:
    """Return a member's target assignment."""
    read = read_value(StreamsGroupTargetAssignmentMemberValue, value)
    roles = zip(TaskRole, (read.active_tasks, read.standby_tasks, read.warmup_tasks), strict=True)
    return {
        SubtopologyRole(role, each.subtopology_id): frozenset(each.partitions)
        for role, tasks in roles
        for each in tasks
        if each.partitions
    }


def current_value(current: CurrentAssignment[SubtopologyRole]) -> bytes:
    """Return the value of a member's current assignment."""
    active, standby, warmup = _current_roles(current.assigned)
    revoked_active, revoked_standby, revoked_warmup = _current_roles(current.revoking)
    return versioned_value(
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=STATE_NUMBERS[current.state],
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            active_tasks_pending_revocation=revoked_active,
            standby_tasks_pending_revocation=revoked_standby,
            warmup_tasks_pending_revocation=revoked_warmup,
        )
    )


def read_current(value: bytes) -> CurrentAssignment[SubtopologyRole]:
    """Return a member's current assignment."""
    read = read_value(StreamsGroupCurrentMemberAssignmentValue, value)
    assigned = read.active_tasks, read.standby_tasks, read.warmup_tasks
    revoking = (
        read.active_tasks_pending_revocation,
        read.standby_tasks_pending_revocation,
        read.warmup_tasks_pending_revocation,
    )
    return CurrentAssignment(
        read.member_epoch,
        read.previous_member_epoch,
        _STATES.get(read.state, ModernMemberState.UNKNOWN),
        _owned(assigned, read.member_epoch),
        _owned(revoking, read.member_epoch),
    )


def topology_value(topology: Topology) -> bytes:
    """Return the value of a topology."""
    subtopologies = [_subtopology_record(one) for one in topology.subtopologies]
    return versioned_value(StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies))


def read_topology(value: bytes) -> Topology:
    """Return a topology."""
    read = read_value(StreamsGroupTopologyValue, value)
    return Topology(read.epoch, tuple(subtopology(each) for each in read.subtopologies))


def subtopology(fields: Any) -> Subtopology:
    """Return a subtopology from its fields, which records and requests name alike."""
    return Subtopology(
        fields.subtopology_id,
        tuple(fields.source_topics),
        tuple(map(_internal_topic, fields.repartition_source_topics)),
        tuple(fields.repartition_sink_topics),
        tuple(map(_internal_topic, fields.state_changelog_topics)),
        tuple(
            CopartitionGroup(tuple(each.source_topics), tuple(each.repartition_source_topics))
            for each in fields.copartition_groups
        ),
    )


def _subtopology_record(one: Subtopology) -> SubtopologyRecord:
    return SubtopologyRecord(
        subtopology_id=one.id,
        source_topics=list(one.source_topics),
        source_topic_regex=[],
        state_changelog_topics=[_topic_info(topic) for topic in one.changelog_topics],
        repartition_sink_topics=list(one.sink_topics),
        repartition_source_topics=[_topic_info(topic) for topic in one.repartition_topics],
        copartition_groups=[
            CopartitionIndexes(
                source_topics=list(group.source_topics),
                source_topic_regex=[],
                repartition_source_topics=list(group.repartition_topics),
            )
            for group in one.copartition_groups
        ],
    )


def _topic_info(topic: InternalTopic) -> InternalTopicInfo:
    return InternalTopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=_key_values(topic.configs),
    )


def _internal_topic(fields: Any) -> InternalTopic:
    return InternalTopic(fields.name, fields.partitions, fields.replication_factor, _pairs(fields.topic_configs))


def _current_roles(owned: OwnedTasks) -> list[list[CurrentTasks]]:
    roles: dict[TaskRole, list[CurrentTasks]] = {role: [] for role in TaskRole}
    for each in sorted(owned):
        roles[each.role].append(_current_tasks(each, owned[each]))
    return list(roles.values())


def _current_tasks(each: SubtopologyRole, epochs: Mapping[int, int]) -> CurrentTasks:
    tasks = sorted(epochs)
    is_active = each.role is TaskRole.ACTIVE
    return CurrentTasks(
        subtopology_id=each.subtopology,
        partitions=tasks,
        assignment_epochs=[epochs[task] for task in tasks] if is_active else None,
    )


def _owned(roles: Iterable[Iterable[CurrentTasks]], member_epoch: int) -> dict[SubtopologyRole, dict[int, int]]:
    """Tasks without an epoch of assignment have the member's."""
    owned: dict[SubtopologyRole, dict[int, int]] = {}
    for role, tasks in zip(TaskRole, roles, strict=True):
        for each in tasks:
            epochs = assignment_epochs(each.partitions, each.assignment_epochs, member_epoch, "tasks of a subtopology")
            if epochs:
                owned[SubtopologyRole(role, each.subtopology_id)] = epochs
    return owned


def _key_values(pairs: Iterable[tuple[str, str]]) -> list[KeyAndValue]:
    return [KeyAndValue(key=key, value=value) for key, value in pairs]


def _pairs(fields: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((each.key, each.value) for each in fields)


TOPOLOGY = RecordType(23, topology_value, read_topology)
RECORDS: ModernRecords[StreamsMemberMetadata, SubtopologyRole] = ModernRecords(
    epoch=RecordType(17, epoch_value, read_epoch),
    metadata=RecordType(19, metadata_value, read_metadata),
    current=RecordType(22, current_value, read_current),
    target=RecordType(21, target_value, read_target),
    target_epoch=RecordType(20, target_epoch_value, read_target_epoch),
    others=(TOPOLOGY,),
)
