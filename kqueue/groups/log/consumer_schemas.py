"""Schemas of the records of consumer groups (KIP-848) in `__consumer_offsets`, by type of the key.

    3   group epoch             ModernGroupKey -> ConsumerGroupMetadataValue
    4   subscribed topics       ModernGroupKey -> ConsumerGroupPartitionMetadataValue (Kafka 4.0)
    5   subscription            ModernMemberKey -> ConsumerGroupMemberMetadataValue
    6   epoch of the target     ModernGroupKey -> ConsumerGroupTargetAssignmentMetadataValue
    7   target assignment       ModernMemberKey -> ConsumerGroupTargetAssignmentMemberValue
    8   current assignment      ModernMemberKey -> ConsumerGroupCurrentMemberAssignmentValue
    16  resolved pattern        ConsumerGroupRegularExpressionKey -> ...RegularExpressionValue

Source: Kafka, group-coordinator message definitions.
"""

from __future__ import annotations

from kqueue.base.names import UUID_ZERO
from kqueue.schema import array, bytes_, field, int8, int32, int64, message, string, struct, uuid


@message(versions="0")
class ModernGroupKey:
    """The key of a group's records."""

    group_id: str = field(string)


@message(versions="0")
class ModernMemberKey:
    """The key of a member's records."""

    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0")
class ConsumerGroupRegularExpressionKey:
    """The key of a resolved topic pattern."""

    group_id: str = field(string)
    regular_expression: str = field(string)


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a group."""

    epoch: int = field(int32)
    metadata_hash: int = field(int64, tag=0)


@struct
class PartitionMetadata:
    """A partition and the racks of its replicas."""

    partition: int = field(int32)
    racks: list[str] = field(array(string))


@struct
class SubscribedTopicMetadata:
    """A subscribed topic."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    topic_name: str = field(string)
    num_partitions: int = field(int32)
    partition_metadata: list[PartitionMetadata] = field(array(PartitionMetadata))


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics to which a group is subscribed."""

    topics: list[SubscribedTopicMetadata] = field(array(SubscribedTopicMetadata))


@struct
class ClassicProtocol:
    """A protocol of a classic member."""

    name: str = field(string)
    metadata: bytes = field(bytes_)


@struct
class ClassicMemberMetadata:
    """The data that a member of the classic protocol sent when it joined."""

    session_timeout_ms: int = field(int32)
    supported_protocols: list[ClassicProtocol] = field(array(ClassicProtocol))


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The subscription of a member."""

    instance_id: str | None = field(string, nullable="0+", default="")
    rack_id: str | None = field(string, nullable="0+", default="")
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default="")
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = field(ClassicMemberMetadata, nullable="0+", tag=0)


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of a target assignment."""

    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)


@struct
class AssignedTopic:
    """Partitions of one topic in a target assignment."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    partitions: list[int] = field(array(int32))


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: list[AssignedTopic] = field(array(AssignedTopic))


@struct
class CurrentTopic:
    """Partitions of one topic in a current assignment."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, default=None)


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[CurrentTopic] = field(array(CurrentTopic))
    partitions_pending_revocation: list[CurrentTopic] = field(array(CurrentTopic))


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that a pattern matched."""

    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)
