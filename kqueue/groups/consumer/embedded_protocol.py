"""The consumer protocol that classic members send within JoinGroup and SyncGroup. A classic group
does not look into it.

    subscription   int16 version, topics, user data, owned partitions (1), generation (2), rack (3)
    assignment     int16 version, partitions, user data

Source: Kafka ConsumerProtocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.groups.consumer.member import Assignment, Partitions
from kqueue.groups.log.schemas import (
    VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kqueue.groups.modern.topics import TopicsMetadata
from kqueue.schema import encode, reader

VERSION_MAX = 3


class EmbeddedSubscription(NamedTuple):
    """A classic member's subscription. `owned`: by topic name; `generation` -1: not sent."""

    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]]
    generation: int
    rack_id: str | None


def read_subscription(data: bytes) -> EmbeddedSubscription:
    """Return a subscription. Raises: MalformedMessage."""
    version = _version(data)
    read, _ = reader(ConsumerProtocolSubscription, version)(memoryview(data), VERSION.size)
    owned = {each.topic: frozenset(each.partitions) for each in read.owned_partitions}
    return EmbeddedSubscription(version, tuple(sorted(set(read.topics))), owned, read.generation_id, read.rack_id)


def read_assignment(data: bytes, topics: TopicsMetadata) -> Assignment:
    """Return an assignment by topic id, without topics that do not exist.

    Raises: MalformedMessage.
    """
    if not data:
        return {}
    read, _ = reader(ConsumerProtocolAssignment, _version(data))(memoryview(data), VERSION.size)
    by_name = {each.topic: frozenset(each.partitions) for each in read.assigned_partitions}
    return by_id(by_name, topics)


def assignment_bytes(version: int, partitions: Partitions, topics: TopicsMetadata) -> bytes:
    """Return an assignment as a member of this version of the protocol reads it."""
    names = {topics.name_of(topic): sorted(indexes) for topic, indexes in partitions.items()}
    assigned = [TopicPartitions(topic=name, partitions=names[name]) for name in sorted(filter(None, names))]
    return VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def by_id(by_name: Mapping[str, frozenset[int]], topics: TopicsMetadata) -> Assignment:
    """Return partitions by topic id, without topics and partitions that do not exist."""
    partitions_of: dict[bytes, frozenset[int]] = {}
    for name, indexes in by_name.items():
        topic = topics.find(name)
        existing = frozenset(index for index in indexes if topic is not None and 0 <= index < topic.partition_count)
        if topic is not None and existing:
            partitions_of[topic.id] = existing
    return partitions_of


def _version(data: bytes) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(f"the consumer protocol starts with a version of {VERSION.size} bytes: {data!r}")
    version: int = VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessage(f"the consumer protocol has a version from 0 on, found {version}")
    return min(version, VERSION_MAX)
