"""Schemas of the records of share groups (KIP-932) in `__consumer_offsets`, by type of the key.

    10  subscription          ModernMemberKey -> ShareGroupMemberMetadataValue
    11  group epoch           ModernGroupKey -> ShareGroupMetadataValue
    12  epoch of the target   ModernGroupKey -> ShareGroupTargetAssignmentMetadataValue
    13  target assignment     ModernMemberKey -> ShareGroupTargetAssignmentMemberValue
    14  current assignment    ModernMemberKey -> ShareGroupCurrentMemberAssignmentValue
    15  share partitions      ModernGroupKey -> ShareGroupStatePartitionMetadataValue

Source: Kafka, group-coordinator message definitions.
"""

from __future__ import annotations

from kqueue.schema import array, field, int8, int32, int64, message, string, struct, uuid


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """What a member subscribes to."""

    rack_id: str | None = field(string, nullable="0+")
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The epoch of a group."""

    epoch: int = field(int32)
    metadata_hash: int = field(int64)


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment."""

    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0, ignorable=True)


@struct
class ShareAssignedTopic:
    """Partitions of a topic."""

    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@message(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    """What a member shall read."""

    topic_partitions: list[ShareAssignedTopic] = field(array(ShareAssignedTopic))


@message(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """What a member reads."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[ShareAssignedTopic] = field(array(ShareAssignedTopic))


@struct
class TopicPartitionsInfo:
    """Partitions of a topic with its name."""

    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class TopicInfo:
    """A topic."""

    topic_id: bytes = field(uuid)
    topic_name: str = field(string)


@message(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The share partitions of a group: which have a state, get one, or lose it."""

    initializing_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    deleting_topics: list[TopicInfo] = field(array(TopicInfo))
