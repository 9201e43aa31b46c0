"""The topology of a streams application: subtopologies, and the topics between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

ITEM_BYTES = 64
"""A name in a topology without its text."""


class InternalTopic(NamedTuple):
    """A topic that the broker creates for the group.

    Attributes:
        partition_count: 0: the broker decides.
        replication_factor: 0: the broker's default.
        configs: names and values.
    """

    name: str
    partition_count: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics with the same number of partitions: positions in the lists of the subtopology."""

    source_topics: tuple[int, ...] = ()
    repartition_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A part of a topology whose tasks read the partitions of one index together.

    Attributes:
        source_topics: topics that users create.
        repartition_topics: internal topics that it reads.
        sink_topics: repartition topics that it writes.
        changelog_topics: of its state; empty: it has none.
    """

    id: str
    source_topics: tuple[str, ...] = ()
    repartition_topics: tuple[InternalTopic, ...] = ()
    sink_topics: tuple[str, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def topics(self) -> Iterator[str]:
        """Yield the topics that its tasks read."""
        yield from self.source_topics
        for topic in self.repartition_topics:
            yield topic.name

    def copartitioned(self, group: CopartitionGroup) -> list[str]:
        """Return the names of the topics of a copartition group."""
        names = [self.source_topics[index] for index in group.source_topics]
        return names + [self.repartition_topics[index].name for index in group.repartition_topics]


class Topology(NamedTuple):
    """A topology. `epoch`: of the application's version."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def source_topics(self) -> dict[str, str]:
        """Return topic -> id of the subtopology that reads it."""
        return {topic: one.id for one in self.subtopologies for topic in one.topics()}

    def required_topics(self) -> set[str]:
        """Return the names of all topics that must exist before tasks run."""
        names = set(self.source_topics())
        names.update(topic.name for one in self.subtopologies for topic in one.changelog_topics)
        return names


def item_count(topology: Topology) -> int:
    """Return how many names, numbers and settings a topology has."""
    count = len(topology.subtopologies)
    for one in topology.subtopologies:
        count += len(one.source_topics) + len(one.sink_topics)
        count += sum(1 + len(topic.configs) for topic in (*one.repartition_topics, *one.changelog_topics))
        count += sum(1 + len(group.source_topics) + len(group.repartition_topics) for group in one.copartition_groups)
    return count


def topology_bytes(topology: Topology) -> int:
    """Return the size of a topology, in bytes."""
    size = ITEM_BYTES * item_count(topology)
    for one in topology.subtopologies:
        size += len(one.id) + sum(map(len, one.source_topics)) + sum(map(len, one.sink_topics))
        for topic in (*one.repartition_topics, *one.changelog_topics):
            size += len(topic.name) + sum(len(name) + len(value) for name, value in topic.configs)
    return size
