"""Encodes and decodes the records of share groups in `__consumer_offsets`, as Kafka 4.3 does.

`share_schemas` lists the types. A value of None in a key and value pair is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.groups.log.consumer_schemas import ModernGroupKey, ModernMemberKey
from kqueue.groups.log.schemas import VERSION
from kqueue.groups.share.member import Assignment, ShareMember, ShareSubscription
from kqueue.schema import array, decode, encode, field, int8, int32, int64, message, string, struct, uuid

MEMBER_SUBSCRIPTION = 10
GROUP_EPOCH = 11
TARGET_EPOCH = 12
MEMBER_TARGET = 13
MEMBER_CURRENT = 14
STATE_PARTITIONS = 15
GROUP_KEYS = frozenset({GROUP_EPOCH, TARGET_EPOCH, STATE_PARTITIONS})
MEMBER_KEYS = frozenset({MEMBER_SUBSCRIPTION, MEMBER_TARGET, MEMBER_CURRENT})
KEYS = GROUP_KEYS | MEMBER_KEYS
_VALUE_VERSION = VERSION.pack(0)
STABLE = 0


# Schemas of the records of share groups (KIP-932) in `__consumer_offsets`, by type of the key.
#
#     10  subscription          ModernMemberKey -> ShareGroupMemberMetadataValue
#     11  group epoch           ModernGroupKey -> ShareGroupMetadataValue
#     12  epoch of the target   ModernGroupKey -> ShareGroupTargetAssignmentMetadataValue
#     13  target assignment     ModernMemberKey -> ShareGroupTargetAssignmentMemberValue
#     14  current assignment    ModernMemberKey -> ShareGroupCurrentMemberAssignmentValue
#     15  share partitions      ModernGroupKey -> ShareGroupStatePartitionMetadataValue
#
# Source: Kafka, group-coordinator message definitions.


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


class ShareGroupKey(NamedTuple):
    """A decoded key. `name`: a member id; "" in records of the group itself."""

    type: int
    group: str
    name: str = ""


class StateTopic(NamedTuple):
    """Partitions of a topic, with its name."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """The share partitions of a group, by topic id. `deleting`: topic id -> name."""

    initializing: Mapping[bytes, StateTopic] = {}
    initialized: Mapping[bytes, StateTopic] = {}
    deleting: Mapping[bytes, str] = {}


def read_key(type: int, data: bytes | memoryview) -> ShareGroupKey:
    """Return the key of a type in `KEYS`; `data` follows the type. Raises: MalformedMessage."""
    if type in GROUP_KEYS:
        return ShareGroupKey(type, decode(ModernGroupKey, 0, data).group_id)
    member = decode(ModernMemberKey, 0, data)
    return ShareGroupKey(type, member.group_id, member.member_id)


def key(type: int, group_id: str, name: str = "") -> bytes:
    """Return the encoded key of a type in `KEYS`."""
    fields: Any = ModernGroupKey(group_id=group_id)
    if type in MEMBER_KEYS:
        fields = ModernMemberKey(group_id=group_id, member_id=name)
    return VERSION.pack(type) + encode(fields, 0)


def epoch_value(epoch: int, metadata_hash: int) -> bytes:
    """Return the value of a group's epoch."""
    return _value(ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def read_epoch(value: bytes) -> tuple[int, int]:
    """Return epoch and metadata hash."""
    read = _read(ShareGroupMetadataValue, value)
    return read.epoch, read.metadata_hash


def subscription_value(subscription: ShareSubscription) -> bytes:
    """Return the value of a member's subscription."""
    return _value(
        ShareGroupMemberMetadataValue(
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=list(subscription.topics),
        )
    )


def read_subscription(value: bytes) -> ShareSubscription:
    """Return a member's subscription."""
    read = _read(ShareGroupMemberMetadataValue, value)
    return ShareSubscription(read.rack_id, read.client_id, read.client_host, tuple(sorted(read.subscribed_topic_names)))


def target_epoch_value(epoch: int, timestamp_ms: int) -> bytes:
    """Return the value of the epoch of a target assignment; the time is the wall clock."""
    return _value(ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms))


def read_target_epoch(value: bytes) -> tuple[int, int]:
    """Return the epoch of a target assignment, and when it was made."""
    read = _read(ShareGroupTargetAssignmentMetadataValue, value)
    return read.assignment_epoch, read.assignment_timestamp


def target_value(assignment: Assignment) -> bytes:
    """Return the value of a member's target assignment."""
    return _value(ShareGroupTargetAssignmentMemberValue(topic_partitions=_topics(assignment)))


def read_target(value: bytes) -> Assignment:
    """Return a member's target assignment."""
    return _assignment(_read(ShareGroupTargetAssignmentMemberValue, value).topic_partitions)


def current_value(member: ShareMember) -> bytes:
    """Return the value of what a member reads."""
    return _value(
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=_topics(member.assigned),
        )
    )


def read_current(value: bytes) -> tuple[int, int, Assignment]:
    """Return a member's epoch, its previous epoch, and what it reads."""
    read = _read(ShareGroupCurrentMemberAssignmentValue, value)
    return read.member_epoch, read.previous_member_epoch, _assignment(read.assigned_partitions)


def state_value(state: StatePartitions) -> bytes:
    """Return the value of a group's share partitions."""
    return _value(
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(state.initializing),
            initialized_topics=_infos(state.initialized),
            deleting_topics=[TopicInfo(topic_id=id, topic_name=state.deleting[id]) for id in sorted(state.deleting)],
        )
    )


def read_state(value: bytes) -> StatePartitions:
    """Return a group's share partitions."""
    read = _read(ShareGroupStatePartitionMetadataValue, value)
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


def _topics(assignment: Assignment) -> list[ShareAssignedTopic]:
    return [ShareAssignedTopic(topic_id=id, partitions=sorted(assignment[id])) for id in sorted(assignment)]


def _assignment(topics: Iterable[ShareAssignedTopic]) -> dict[bytes, frozenset[int]]:
    return {each.topic_id: frozenset(each.partitions) for each in topics if each.partitions}


def _value(fields: Any) -> bytes:
    return _VALUE_VERSION + encode(fields, 0)


def _read(kind: type[Any], value: bytes) -> Any:
    version = VERSION.unpack_from(value)[0] if len(value) >= VERSION.size else None
    if version != 0:
        raise MalformedMessage(f"a {kind.__name__} has version 0, found {version}")
    return decode(kind, 0, memoryview(value)[VERSION.size :])
