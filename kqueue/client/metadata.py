"""Cluster metadata: one response, and the cache that a client builds from responses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.base.addresses import Address
from kqueue.client.topic_partition import TopicPartition

NO_LEADER = -1
NO_EPOCH = -1
NO_ID = bytes(16)


class BrokerEndpoint(NamedTuple):
    """A broker of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Its host and port."""
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The leader and replicas of a partition.

    `leader`: a node's id, -1 without a leader. `leader_epoch`: -1 where the broker is too old to
    report it.
    """

    leader: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic and its partitions.

    `id`: 16 bytes, all zero where the broker is too old to report it. `partitions`: by number,
    ascending.
    """

    name: str
    id: bytes
    partitions: Mapping[int, PartitionMetadata]
    is_internal: bool = False

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """All its partitions."""
        return [TopicPartition(self.name, index) for index in self.partitions]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One Metadata response.

    `brokers`: by id. `topics`: by name. `failed`: the error code of each topic that has one.
    """

    brokers: Mapping[int, BrokerEndpoint]
    topics: Mapping[str, TopicMetadata]
    cluster_id: str | None = None
    controller: int = NO_LEADER
    failed: Mapping[str, int] | None = None

    def matching(self, pattern: str | re.Pattern[str], *, internal: bool = False) -> list[str]:
        """Return the topics whose whole name matches the pattern, sorted.

        Args:
            internal: include Kafka's internal topics.
        """
        compiled = re.compile(pattern)
        return sorted(
            name
            for name, topic in self.topics.items()
            if compiled.fullmatch(name) and (internal or not topic.is_internal)
        )


class MetadataCache:
    """The client's view of its cluster, updated from Metadata responses.

    Topics marked stale are requested again before their next use.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerEndpoint] = {}
        self.controller = NO_LEADER
        self._topics: dict[str, TopicMetadata] = {}
        self._stale: set[str] = set()

    def topic(self, name: str) -> TopicMetadata | None:
        """Return what is known of a topic; None: nothing."""
        return self._topics.get(name)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the topics that are unknown or stale, without duplicates."""
        return [name for name in dict.fromkeys(names) if name not in self._topics or name in self._stale]

    def invalidate(self, name: str) -> None:
        """Mark a topic stale: a broker's response contradicted its metadata."""
        self._stale.add(name)

    def update(self, metadata: ClusterMetadata, requested: Collection[str] | None) -> None:
        """Merge a response.

        Args:
            requested: the topics that were requested; None: all.
        """
        self.brokers = dict(metadata.brokers)
        self.controller = metadata.controller
        for name in list(self._topics) if requested is None else requested:
            if name not in metadata.topics:
                self._topics.pop(name, None)
        for name, topic in metadata.topics.items():
            known = self._topics.get(name)
            self._topics[name] = (
                topic
                if known is None or known.id != topic.id or topic.id == NO_ID
                else _keep_newer_epochs(known, topic)
            )
            self._stale.discard(name)

    def leader(self, topic_partition: TopicPartition) -> BrokerEndpoint | None:
        """Return the leader of a partition; None: unknown, or it has no leader."""
        topic = self._topics.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return self.brokers.get(partition.leader) if partition is not None else None

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """Return the leader epoch of a partition; -1: unknown."""
        topic = self._topics.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return partition.leader_epoch if partition is not None else NO_EPOCH

    def topic_id(self, name: str) -> bytes:
        """Return the 16 bytes of a topic's id; all zero: unknown."""
        topic = self._topics.get(name)
        return topic.id if topic is not None else NO_ID

    def have_ids(self, names: Iterable[str]) -> bool:
        """Return whether the ids of all these topics are known."""
        return all(self.topic_id(name) != NO_ID for name in names)


def _keep_newer_epochs(known: TopicMetadata, updated: TopicMetadata) -> TopicMetadata:
    """Return the update, but keep each partition whose leader epoch is newer in the cache.

    A broker that has not received the latest metadata reports an older epoch.
    """
    partitions = {
        index: old
        if (old := known.partitions.get(index)) is not None and NO_EPOCH < new.leader_epoch < old.leader_epoch
        else new
        for index, new in updated.partitions.items()
    }
    return TopicMetadata(updated.name, updated.id, partitions, updated.is_internal)
