"""Schemas of Kafka's internal records that kqueue does not write.

They cover consumer groups of KIP-848 and control records of the metadata log.

Source: Kafka's message definitions of the group coordinator, and of the raft log.
"""

from __future__ import annotations

from kqueue.base.names import UUID_ZERO
from kqueue.schema import array, bytes_, field, int8, int16, int32, int64, message, string, struct, uint16, uuid

# --- __consumer_offsets, of groups of the consumer protocol of KIP-848


@message(versions="0")
class GroupKey:
    """The key of a group's records."""

    group_id: str = field(string)


@message(versions="0")
class MemberKey:
    """The key of a member's records."""

    group_id: str = field(string)
    member_id: str = field(string)


@message(versions="0")
class RegularExpressionKey:
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
class TopicMetadata:
    """A subscribed topic."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    topic_name: str = field(string)
    num_partitions: int = field(int32)
    partition_metadata: list[PartitionMetadata] = field(array(PartitionMetadata))


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics to which a group is subscribed."""

    topics: list[TopicMetadata] = field(array(TopicMetadata))


@struct
class ClassicProtocol:
    """A protocol of a classic member."""

    name: str = field(string)
    metadata: bytes = field(bytes_)


@struct
class ClassicMemberMetadata:
    """What a member of the classic protocol sent when it joined."""

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
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", tag=0, default=None
    )


@message(versions="0", flexible="0+")
class TargetAssignmentMetadataValue:
    """The epoch of a target assignment."""

    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)


@struct
class AssignedTopic:
    """Partitions of one topic in a target assignment."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    partitions: list[int] = field(array(int32))


@message(versions="0", flexible="0+")
class TargetAssignmentMemberValue:
    """The target assignment of a member."""

    topic_partitions: list[AssignedTopic] = field(array(AssignedTopic))


@struct
class CurrentTopic:
    """Partitions of one topic in a current assignment."""

    topic_id: bytes = field(uuid, default=UUID_ZERO)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, default=None)


@message(versions="0", flexible="0+")
class CurrentMemberAssignmentValue:
    """The current assignment of a member."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[CurrentTopic] = field(array(CurrentTopic))
    partitions_pending_revocation: list[CurrentTopic] = field(array(CurrentTopic))


@message(versions="0", flexible="0+")
class RegularExpressionValue:
    """The topics that a pattern matched."""

    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)


@message(versions="0")
class LegacyOffsetCommitValue:
    """A committed offset of Kafka 0.8."""

    offset: int = field(int64)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)


# --- control records of the metadata log


@struct
class Voter:
    """A voter of the metadata quorum."""

    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid, "1+", default=UUID_ZERO)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """A new leader of the metadata quorum."""

    version: int = field(int16)
    leader_id: int = field(int32)
    voters: list[Voter] = field(array(Voter))
    granting_voters: list[Voter] = field(array(Voter))


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The first record of a metadata snapshot."""

    version: int = field(int16)
    last_contained_log_timestamp: int = field(int64)


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The last record of a metadata snapshot."""

    version: int = field(int16)


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    """The version of the KRaft protocol."""

    version: int = field(int16)
    kraft_version: int = field(int16)


@struct
class Endpoint:
    """A listener of a voter."""

    name: str = field(string)
    host: str = field(string)
    port: int = field(uint16)


@struct
class KRaftVersionFeature:
    """The KRaft versions that a voter supports."""

    min_supported_version: int = field(int16)
    max_supported_version: int = field(int16)


@struct
class RaftVoter:
    """A voter with its directory and listeners."""

    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid, default=UUID_ZERO)
    endpoints: list[Endpoint] = field(array(Endpoint))
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


@message(versions="0", flexible="0+")
class VotersRecord:
    """The voters of the metadata quorum."""

    version: int = field(int16)
    voters: list[RaftVoter] = field(array(RaftVoter))
