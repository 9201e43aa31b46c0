"""Encodes and decodes the records of share groups in `__consumer_offsets`, as Kafka 4.3 does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.groups.log.consumer_schemas import AssignedTopic
from kqueue.groups.log.modern_records import read_value, versioned_value
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.records import (
    GroupEpoch,
    ModernRecords,
    RecordType,
    read_target,
    read_target_epoch,
    target_epoch_value,
    target_value,
)
from kqueue.groups.share.member import ShareSubscription, current_of
from kqueue.schema import array, field, int8, int32, int64, message, string, struct, uuid

STABLE = 0


# Schemas of the records of share groups (KIP-932) in `__consumer_offsets`, by type of the key.
#
#     10  subscription          ModernMemberKey -> ShareGroupMemberMetadataValue
#     11  group epoch           ModernGroupKey -> ShareGroupMetadataValue
#     12  epoch of the target   ModernGroupKey -> ConsumerGroupTargetAssignmentMetadataValue
#     13  target assignment     ModernMemberKey -> ConsumerGroupTargetAssignmentMemberValue
#     14  current assignment    ModernMemberKey -> ShareGroupCurrentMemberAssignmentValue
#     15  share partitions      ModernGroupKey -> ShareGroupStatePartitionMetadataValue
#
# Source: Kafka, group-coordinator message definitions.


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """The subscription of a member."""

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
class ShareGroupCurrentMemberAssignmentValue:
    """The partitions that a member reads."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[AssignedTopic] = field(array(AssignedTopic))


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


class StateTopic(NamedTuple):
    """Partitions of a topic, with its name."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """The share partitions of a group, by topic id. `deleting`: topic id -> name."""

    initializing: Mapping[bytes, StateTopic] = {}
    initialized: Mapping[bytes, StateTopic] = {}
    deleting: Mapping[bytes, str] = {}


def epoch_value(epoch: GroupEpoch) -> bytes:
    """Return the value of a group's epoch."""
    return versioned_value(ShareGroupMetadataValue(epoch=epoch.epoch, metadata_hash=epoch.metadata_hash))


def read_epoch(value: bytes) -> GroupEpoch:
    """Return a group's epoch."""
    read = read_value(ShareGroupMetadataValue, value)
    return GroupEpoch(read.epoch, read.metadata_hash)


def metadata_value(subscription: ShareSubscription) -> bytes:
    """Return the value of a member's subscription."""
    return versioned_value(
        ShareGroupMemberMetadataValue(
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=list(subscription.topics),
        )
    )


def read_metadata(value: bytes) -> ShareSubscription:
    """Return a member's subscription."""
    read = read_value(ShareGroupMemberMetadataValue, value)
    return ShareSubscription(read.rack_id, read.client_id, read.client_host, tuple(sorted(read.subscribed_topic_names)))


def current_value(current: CurrentAssignment[bytes]) -> bytes:
    """Return the value of what a member reads."""
    topics = [AssignedTopic(topic_id=id, partitions=sorted(current.assigned[id])) for id in sorted(current.assigned)]
    return versioned_value(
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=STABLE,
            assigned_partitions=topics,
        )
    )


def read_current(value: bytes) -> CurrentAssignment[bytes]:
    """Return what a member reads. Share groups write no epochs of assignment: they are the
    member's.
    """
    read = read_value(ShareGroupCurrentMemberAssignmentValue, value)
    assigned = {each.topic_id: frozenset(each.partitions) for each in read.assigned_partitions if each.partitions}
    return current_of(read.member_epoch, read.previous_member_epoch, assigned)


def state_value(state: StatePartitions) -> bytes:
    """Return the value of a group's share partitions."""
    return versioned_value(
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(state.initializing),
            initialized_topics=_infos(state.initialized),
            deleting_topics=[TopicInfo(topic_id=id, topic_name=state.deleting[id]) for id in sorted(state.deleting)],
        )
    )


def read_state(value: bytes) -> StatePartitions:
    """Return a group's share partitions."""
    read = read_value(ShareGroupStatePartitionMetadataValue, value)
    return StatePartitions(
        _by_topic(read.initializing_topics),
        _by_topic(read.initialized_topics),
        {each.topic_id: each.topic_name for each in read.deleting_topics},
    )


def _infos(topics: Mapping[bytes, StateTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=id, topic_name=topics[id].name, partitions=sorted(topics[id].partitions))
        for id in sorted(topics)
    ]


def _by_topic(infos: Iterable[TopicPartitionsInfo]) -> dict[bytes, StateTopic]:
    return {each.topic_id: StateTopic(each.topic_name, frozenset(each.partitions)) for each in infos}


STATE = RecordType(15, state_value, read_state)
RECORDS: ModernRecords[ShareSubscription, bytes] = ModernRecords(
    epoch=RecordType(11, epoch_value, read_epoch),
    metadata=RecordType(10, metadata_value, read_metadata),
    current=RecordType(14, current_value, read_current),
    target=RecordType(13, target_value, read_target),
    target_epoch=RecordType(12, target_epoch_value, read_target_epoch),
    others=(STATE,),
)
