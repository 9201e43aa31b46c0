"""Schemas of the records of `__consumer_offsets` and of the consumer protocol's metadata.

    record key     int16 type (0, 1: an offset; 2: a group; others: unsupported group types), then
                   its fields
    record value   int16 version, then its fields; null (a tombstone) deletes what the key names
    subscription   int16 version, then its fields; a later version starts with all earlier fields

Source: Kafka, group-coordinator message definitions and ConsumerProtocolSubscription/Assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kqueue.base.errors import MalformedMessage
from kqueue.base.names import UUID_ZERO
from kqueue.schema import array, bytes_, field, int32, int64, message, reader, string, struct, uuid

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers. Metadata of other types, such as Connect's, is opaque."""
VERSION = Struct(">h")
"""The type or version before the fields of keys, values and subscriptions."""


@message(versions="0")
class OffsetCommitKey:
    """Key of a committed offset."""

    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """Value of a committed offset."""

    offset: int = field(int64)
    leader_epoch: int = field(int32, "3+", default=-1, ignorable=True)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, "1", default=-1, ignorable=True)
    topic_id: bytes = field(uuid, "4+", tag=0, ignorable=True, default=UUID_ZERO)


@message(versions="0")
class GroupMetadataKey:
    """Key of a group's generation."""

    group: str = field(string)


@struct
class MemberMetadata:
    """One member in `GroupMetadataValue`."""

    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout: int = field(int32, "1+", default=-1, ignorable=True)
    session_timeout: int = field(int32)
    subscription: bytes = field(bytes_)
    assignment: bytes = field(bytes_)


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """Value of a group's generation."""

    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+", default=None)
    leader: str | None = field(string, nullable="0+", default=None)
    current_state_timestamp: int = field(int64, "2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(array(MemberMetadata))


@struct
class TopicPartitions:
    """A topic and partitions of it."""

    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(versions="0-3")
class ConsumerProtocolSubscription:
    """Metadata that a consumer sends when it joins a group."""

    topics: list[str] = field(array(string))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), "1+", ignorable=True)
    generation_id: int = field(int32, "2+", default=-1, ignorable=True)
    rack_id: str | None = field(string, "3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    """Assignment of a member by the group leader."""

    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in these subscriptions; None if one is not a consumer's subscription.

    Reads only the fields of version 0, which every version starts with. Source: Kafka
    ClassicGroup.computeSubscribedTopics.
    """
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            if len(subscription) < VERSION.size:
                return None
            decoded, _ = read(memoryview(subscription), VERSION.size)
            topics.update(decoded.topics)
    except MalformedMessage:
        return None
    return frozenset(topics)
