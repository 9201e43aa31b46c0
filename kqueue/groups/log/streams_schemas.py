"""Schemas of the records of streams groups (KIP-1071) in `__consumer_offsets`, by type of the key.

    17  group epoch             ModernGroupKey -> StreamsGroupMetadataValue
    19  member                  ModernMemberKey -> StreamsGroupMemberMetadataValue
    20  epoch of the target     ModernGroupKey -> ConsumerGroupTargetAssignmentMetadataValue
    21  target assignment       ModernMemberKey -> StreamsGroupTargetAssignmentMemberValue
    22  current assignment      ModernMemberKey -> StreamsGroupCurrentMemberAssignmentValue
    23  topology                ModernGroupKey -> StreamsGroupTopologyValue

The epoch of the target has the same fields as that of a consumer group.

Source: Kafka, group-coordinator message definitions.
"""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, string, struct, uint16


@struct
class KeyAndValue:
    """A setting or a tag."""

    key: str = field(string)
    value: str = field(string)


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """The epoch of a group. `validated_topology_epoch` -1: topics are missing."""

    epoch: int = field(int32)
    metadata_hash: int = field(int64)
    validated_topology_epoch: int = field(int32, tag=0, default=-1)
    last_assignment_configs: list[KeyAndValue] | None = field(array(KeyAndValue), nullable="0+", tag=1)


@struct
class EndpointRecord:
    """The address at which a member answers interactive queries."""

    host: str = field(string)
    port: int = field(uint16)


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """The data that a member sent."""

    instance_id: str | None = field(string, nullable="0+", default="")
    rack_id: str | None = field(string, nullable="0+", default="")
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: EndpointRecord | None = field(EndpointRecord, nullable="0+", default=None)
    client_tags: list[KeyAndValue] = field(array(KeyAndValue))


@struct
class TargetTasks:
    """Tasks of one subtopology in a target assignment."""

    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    active_tasks: list[TargetTasks] = field(array(TargetTasks))
    standby_tasks: list[TargetTasks] = field(array(TargetTasks))
    warmup_tasks: list[TargetTasks] = field(array(TargetTasks))


@struct
class CurrentTasks:
    """Tasks of one subtopology in a current assignment; only active ones have epochs."""

    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, default=None)


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The current assignment of a member."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    active_tasks: list[CurrentTasks] = field(array(CurrentTasks))
    standby_tasks: list[CurrentTasks] = field(array(CurrentTasks))
    warmup_tasks: list[CurrentTasks] = field(array(CurrentTasks))
    active_tasks_pending_revocation: list[CurrentTasks] = field(array(CurrentTasks))
    standby_tasks_pending_revocation: list[CurrentTasks] = field(array(CurrentTasks))
    warmup_tasks_pending_revocation: list[CurrentTasks] = field(array(CurrentTasks))


@struct
class InternalTopicInfo:
    """A topic that the broker creates for a group. `partitions`, `replication_factor` 0: unset."""

    name: str = field(string)
    partitions: int = field(int32)
    replication_factor: int = field(int16)
    topic_configs: list[KeyAndValue] = field(array(KeyAndValue))


@struct
class CopartitionIndexes:
    """Source topics with the same number of partitions, by their positions in the subtopology."""

    source_topics: list[int] = field(array(int16))
    source_topic_regex: list[int] = field(array(int16))
    repartition_source_topics: list[int] = field(array(int16))


@struct
class SubtopologyRecord:
    """A part of a topology: topics in, topics out, and changelogs of its state."""

    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    source_topic_regex: list[str] = field(array(string))
    state_changelog_topics: list[InternalTopicInfo] = field(array(InternalTopicInfo))
    repartition_sink_topics: list[str] = field(array(string))
    repartition_source_topics: list[InternalTopicInfo] = field(array(InternalTopicInfo))
    copartition_groups: list[CopartitionIndexes] = field(array(CopartitionIndexes))


@message(versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """The topology of a group."""

    epoch: int = field(int32)
    subtopologies: list[SubtopologyRecord] = field(array(SubtopologyRecord))
