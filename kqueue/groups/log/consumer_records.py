"""Encodes and decodes the records of consumer groups in `__consumer_offsets`, as Kafka 4.3 does.

`consumer_schemas` lists the types. A value of None in a key and value pair is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.groups.consumer.member import (
    Assignment,
    ClassicProtocols,
    Partitions,
    Subscription,
)
from kqueue.groups.log.consumer_schemas import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopic,
    ModernGroupKey,
    ModernMemberKey,
)
from kqueue.groups.log.schemas import VERSION
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.schema import decode, encode

GROUP_EPOCH = 3
PARTITION_METADATA = 4
MEMBER_SUBSCRIPTION = 5
TARGET_EPOCH = 6
MEMBER_TARGET = 7
MEMBER_CURRENT = 8
RESOLVED_REGEX = 16
GROUP_KEYS = frozenset({GROUP_EPOCH, PARTITION_METADATA, TARGET_EPOCH})
MEMBER_KEYS = frozenset({MEMBER_SUBSCRIPTION, MEMBER_TARGET, MEMBER_CURRENT})
KEYS = GROUP_KEYS | MEMBER_KEYS | {RESOLVED_REGEX}
Record = tuple[bytes, bytes | None]
_VALUE_VERSION = VERSION.pack(0)


class ConsumerGroupKey(NamedTuple):
    """A decoded key. `name`: a member id or a pattern; "" in records of the group itself."""

    type: int
    group: str
    name: str = ""


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matches; `version` of the topics' metadata; wall clock."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def read_key(type: int, data: bytes | memoryview) -> ConsumerGroupKey:
    """Return the key of a type in `KEYS`; `data` follows the type. Raises: MalformedMessage."""
    if type in GROUP_KEYS:
        return ConsumerGroupKey(type, decode(ModernGroupKey, 0, data).group_id)
    if type in MEMBER_KEYS:
        member = decode(ModernMemberKey, 0, data)
        return ConsumerGroupKey(type, member.group_id, member.member_id)
    regex = decode(ConsumerGroupRegularExpressionKey, 0, data)
    return ConsumerGroupKey(type, regex.group_id, regex.regular_expression)


def key(type: int, group_id: str, name: str = "") -> bytes:
    """Return the encoded key of a type in `KEYS`."""
    fields: Any
    if type in GROUP_KEYS:
        fields = ModernGroupKey(group_id=group_id)
    elif type in MEMBER_KEYS:
        fields = ModernMemberKey(group_id=group_id, member_id=name)
    else:
        fields = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=name)
    return VERSION.pack(type) + encode(fields, 0)


# --- values


def epoch_value(epoch: int, metadata_hash: int) -> bytes:
    """Return the value of a group's epoch."""
    return versioned_value(ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def read_epoch(value: bytes) -> tuple[int, int]:
    """Return epoch and metadata hash."""
    read = read_value(ConsumerGroupMetadataValue, value)
    return read.epoch, read.metadata_hash


def subscription_value(subscription: Subscription) -> bytes:
    """Return the value of a member's subscription."""
    classic = subscription.classic
    metadata = None
    if classic is not None:
        metadata = ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        )
    return versioned_value(
        ConsumerGroupMemberMetadataValue(
            instance_id=subscription.instance_id,
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=list(subscription.topics),
            subscribed_topic_regex=subscription.regex,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            server_assignor=subscription.assignor,
            classic_member_metadata=metadata,
        )
    )


def read_subscription(value: bytes) -> Subscription:
    """Return a member's subscription."""
    read = read_value(ConsumerGroupMemberMetadataValue, value)
    metadata = read.classic_member_metadata
    classic = None
    if metadata is not None:
        protocols = tuple((each.name, bytes(each.metadata)) for each in metadata.supported_protocols)
        classic = ClassicProtocols(metadata.session_timeout_ms, protocols)
    return Subscription(
        read.instance_id,
        read.rack_id,
        read.client_id,
        read.client_host,
        tuple(sorted(read.subscribed_topic_names)),
        read.subscribed_topic_regex or "",
        read.rebalance_timeout_ms,
        read.server_assignor,
        classic,
    )


def target_epoch_value(epoch: int, timestamp_ms: int) -> bytes:
    """Return the value of the epoch of a target assignment; the time is the wall clock."""
    return versioned_value(
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    )


def read_target_epoch(value: bytes) -> tuple[int, int]:
    """Return the epoch of a target assignment, and when it was made."""
    read = read_value(ConsumerGroupTargetAssignmentMetadataValue, value)
    return read.assignment_epoch, read.assignment_timestamp


def target_value(assignment: Assignment) -> bytes:
    """Return the value of a member's target assignment."""
    topics = [AssignedTopic(topic_id=topic, partitions=sorted(assignment[topic])) for topic in sorted(assignment)]
    return versioned_value(ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def read_target(value: bytes) -> dict[bytes, frozenset[int]]:
    """Return a member's target assignment."""
    read = read_value(ConsumerGroupTargetAssignmentMemberValue, value)
    return {each.topic_id: frozenset(each.partitions) for each in read.topic_partitions if each.partitions}


def current_value(current: CurrentAssignment[bytes]) -> bytes:
    """Return the value of a member's current assignment."""
    return versioned_value(
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state,
            assigned_partitions=_current_topics(current.assigned),
            partitions_pending_revocation=_current_topics(current.revoking),
        )
    )


def read_current(value: bytes) -> CurrentAssignment[bytes]:
    """Return a member's current assignment."""
    read = read_value(ConsumerGroupCurrentMemberAssignmentValue, value)
    known = read.state in tuple(ModernMemberState)
    return CurrentAssignment(
        read.member_epoch,
        read.previous_member_epoch,
        ModernMemberState(read.state) if known else ModernMemberState.UNKNOWN,
        _partitions(read.assigned_partitions, read.member_epoch),
        _partitions(read.partitions_pending_revocation, read.member_epoch),
    )


def regex_value(regex: ResolvedRegex) -> bytes:
    """Return the value of a resolved pattern."""
    return versioned_value(
        ConsumerGroupRegularExpressionValue(
            topics=sorted(regex.topics), version=regex.version, timestamp=regex.timestamp_ms
        )
    )


def read_regex(value: bytes) -> ResolvedRegex:
    """Return a resolved pattern."""
    read = read_value(ConsumerGroupRegularExpressionValue, value)
    return ResolvedRegex(frozenset(read.topics), read.version, read.timestamp)


def _current_topics(partitions: Partitions) -> list[CurrentTopic]:
    return [_current_topic(topic, partitions[topic]) for topic in sorted(partitions)]


def _current_topic(topic: bytes, epochs: Mapping[int, int]) -> CurrentTopic:
    indexes = sorted(epochs)
    return CurrentTopic(topic_id=topic, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes])


def _partitions(topics: Iterable[CurrentTopic], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Kafka before 4.3 wrote no epochs of assignment: they count as the member's."""
    partitions: dict[bytes, dict[int, int]] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None:
            epochs = [member_epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            raise MalformedMessage(
                f"a current assignment has {len(each.partitions)} partitions of a topic and {len(epochs)} epochs"
            )
        if each.partitions:
            partitions[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return partitions


def versioned_value(fields: Any) -> bytes:
    """Return a value: its version, 0, and its fields."""
    return _VALUE_VERSION + encode(fields, 0)


def read_value(kind: type[Any], value: bytes) -> Any:
    """Return the fields of a value. Raises: MalformedMessage: damaged, or of another version."""
    version = VERSION.unpack_from(value)[0] if len(value) >= VERSION.size else None
    if version != 0:
        raise MalformedMessage(f"a {kind.__name__} has version 0, found {version}")
    return decode(kind, 0, memoryview(value)[VERSION.size :])
