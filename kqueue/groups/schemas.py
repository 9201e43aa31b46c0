"""The records of `__consumer_offsets`, and the metadata that members of the consumer protocol
exchange through us.

    record key     int16 type (0, 1: an offset; 2: a group; others belong to group types that we do not serve), then its fields
    record value   int16 version, then its fields; null (a tombstone) takes back what the key names
    subscription   int16 version, then its fields; a later version starts with all fields of the earlier ones

Source: Kafka, group-coordinator message definitions and ConsumerProtocolSubscription/Assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kqueue.base.errors import MalformedMessage
from kqueue.base.names import UUID_ZERO
from kqueue.schema import array, bytes_, field, int32, int64, message, reader, string, struct, uuid

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers; other types (Connect's workers, say) mean nothing to us."""
VERSION = Struct(">h")
"""What stands before the fields of keys, values and subscriptions."""


@message(versions="0")
class OffsetCommitKey:
    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = field(int64)
    leader_epoch: int = field(int32, "3+", default=-1, ignorable=True)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, "1", default=-1, ignorable=True)
    topic_id: bytes = field(uuid, "4+", tag=0, ignorable=True, default=UUID_ZERO)


@message(versions="0")
class GroupMetadataKey:
    group: str = field(string)


@struct
class MemberMetadata:
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
    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+", default=None)
    leader: str | None = field(string, nullable="0+", default=None)
    current_state_timestamp: int = field(int64, "2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(array(MemberMetadata))


@struct
class TopicPartitions:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = field(array(string))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), "1+", ignorable=True)
    generation_id: int = field(int32, "2+", default=-1, ignorable=True)
    rack_id: str | None = field(string, "3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics named in these subscriptions; None if one of them is not a consumer's
    subscription.

    Only what version 0 has is read, which every version starts with. Source: Kafka
    ClassicGroup.computeSubscribedTopics.
    """
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            if len(subscription) < VERSION.size:
                return None
            found, _ = read(memoryview(subscription), VERSION.size)
            topics.update(found.topics)
    except MalformedMessage:
        return None
    return frozenset(topics)
