"""Encodes and decodes the records of consumer groups in `__consumer_offsets`, as Kafka 4.3 does.

`log.consumer_schemas` lists the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.groups.consumer.member import ClassicProtocols, Partitions, Subscription
from kqueue.groups.log.consumer_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    CurrentTopic,
)
from kqueue.groups.log.modern_records import read_value, versioned_value
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.modern.records import (
    GroupEpoch,
    ModernRecords,
    RecordType,
    assignment_epochs,
    read_target,
    read_target_epoch,
    target_epoch_value,
    target_value,
)

PARTITION_METADATA = 4
"""Type of the topics of a group, as Kafka 4.0 wrote them."""


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matches; `version` of the topics' metadata; wall clock."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def epoch_value(epoch: GroupEpoch) -> bytes:
    """Return the value of a group's epoch."""
    return versioned_value(ConsumerGroupMetadataValue(epoch=epoch.epoch, metadata_hash=epoch.metadata_hash))


def read_epoch(value: bytes) -> GroupEpoch:
    """Return a group's epoch."""
    read = read_value(ConsumerGroupMetadataValue, value)
    return GroupEpoch(read.epoch, read.metadata_hash)


def metadata_value(subscription: Subscription) -> bytes:
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


def read_metadata(value: bytes) -> Subscription:
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
        epochs = assignment_epochs(each.partitions, each.assignment_epochs, member_epoch, "partitions of a topic")
        if epochs:
            partitions[each.topic_id] = epochs
    return partitions


REGEX = RecordType(16, regex_value, read_regex)
RECORDS: ModernRecords[Subscription, bytes] = ModernRecords(
    epoch=RecordType(3, epoch_value, read_epoch),
    metadata=RecordType(5, metadata_value, read_metadata),
    current=RecordType(8, current_value, read_current),
    target=RecordType(7, target_value, read_target),
    target_epoch=RecordType(6, target_epoch_value, read_target_epoch),
    others=(REGEX,),
    obsolete=(PARTITION_METADATA,),
)
