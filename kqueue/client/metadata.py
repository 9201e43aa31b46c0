"""What metadata says: brokers, topics, and who leads each partition; and what a client remembers of
it.
"""

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


class Node(NamedTuple):
    """A broker, with the address at which clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader`: a node's id, -1 while there is none; `leader_epoch`: -1 where the broker is too old
    to tell.
    """

    leader: int
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`id`: 16 bytes, all zero where the broker is too old to tell; `partitions`: by their numbers,
    rising.
    """

    name: str
    id: bytes
    partitions: Mapping[int, PartitionMetadata]
    is_internal: bool = False

    @property
    def places(self) -> list[TopicPartition]:
        """All its partitions."""
        return [TopicPartition(self.name, index) for index in self.partitions]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One answer: `brokers` by id, `topics` by name; `failed`: the topics that it had an error for,
    with the code.
    """

    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicMetadata]
    cluster_id: str | None = None
    controller: int = NO_LEADER
    failed: Mapping[str, int] | None = None

    def matching(self, pattern: str | re.Pattern[str], *, internal: bool = False) -> list[str]:
        """The names that the pattern matches from their first letter to their last, sorted;
        `internal`: Kafka's own topics too.
        """
        compiled = re.compile(pattern)
        return sorted(
            name
            for name, topic in self.topics.items()
            if compiled.fullmatch(name) and (internal or not topic.is_internal)
        )


class MetadataCache:
    """What a client knows of its cluster. Topics that are `stale` are to be asked for again before
    they are used.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, Node] = {}
        self.controller = NO_LEADER
        self._topics: dict[str, TopicMetadata] = {}
        self._stale: set[str] = set()

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those that are not known, or stale; each once."""
        return [name for name in dict.fromkeys(names) if name not in self._topics or name in self._stale]

    def invalidate(self, name: str) -> None:
        """What is known of this topic has turned out not to hold."""
        self._stale.add(name)

    def update(self, metadata: ClusterMetadata, asked: Collection[str] | None) -> None:
        """Take over an answer. `asked`: the topics that it is about; None: all."""
        self.brokers = dict(metadata.brokers)
        self.controller = metadata.controller
        for name in list(self._topics) if asked is None else asked:
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

    def leader(self, place: TopicPartition) -> Node | None:
        """Who leads, as far as is known; None: nobody, or a broker that is not there."""
        topic = self._topics.get(place.topic)
        found = topic.partitions.get(place.partition) if topic is not None else None
        return self.brokers.get(found.leader) if found is not None else None

    def leader_epoch(self, place: TopicPartition) -> int:
        topic = self._topics.get(place.topic)
        found = topic.partitions.get(place.partition) if topic is not None else None
        return found.leader_epoch if found is not None else NO_EPOCH

    def topic_id(self, name: str) -> bytes:
        """All zero where it is not known."""
        topic = self._topics.get(name)
        return topic.id if topic is not None else NO_ID

    def have_ids(self, names: Iterable[str]) -> bool:
        return all(self.topic_id(name) != NO_ID for name in names)


def _keep_newer_epochs(known: TopicMetadata, told: TopicMetadata) -> TopicMetadata:
    """What was told of the same topic, but for partitions of an older leader epoch than is known:
    that broker has not heard of it yet.
    """
    partitions = {
        index: old
        if (old := known.partitions.get(index)) is not None and NO_EPOCH < one.leader_epoch < old.leader_epoch
        else one
        for index, one in told.partitions.items()
    }
    return TopicMetadata(told.name, told.id, partitions, told.is_internal)
