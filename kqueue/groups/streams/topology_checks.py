"""What a topology must have, whatever topics there are. Source: Kafka GroupCoordinatorService."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.errors import InvalidTopic
from kqueue.base.names import INTERNAL_TOPICS, check_topic
from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.topology import Subtopology, Topology


def check_topology(topology: Topology) -> None:
    """Check the names, numbers and references in a topology. Raises: StreamsInvalidTopology."""
    ids = {one.id for one in topology.subtopologies}
    if len(ids) != len(topology.subtopologies):
        raise StreamsInvalidTopology("Two subtopologies have the same id.")
    for one in topology.subtopologies:
        _check_subtopology(one)


def _check_subtopology(one: Subtopology) -> None:
    for topic in one.changelog_topics:
        if topic.partition_count:
            raise StreamsInvalidTopology(
                f"Changelog topic {topic.name} must have an undefined partition count, "
                f"but it is set to {topic.partition_count}."
            )
    for topic in one.repartition_topics:
        if topic.partition_count < 0:
            raise StreamsInvalidTopology(
                f"Repartition topic {topic.name} has a negative number of partitions: {topic.partition_count}."
            )
    for name in _names(one):
        if name in INTERNAL_TOPICS:
            raise StreamsInvalidTopology(
                f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
            )
        try:
            check_topic(name)
        except InvalidTopic as error:
            raise StreamsInvalidTopology(f"Topic names {name} are not valid topic names: {error}") from None
    if next(one.topics(), None) is None:
        raise StreamsInvalidTopology(f"Subtopology {one.id} does not contain any source topics.")
    for group in one.copartition_groups:
        for indexes, count in (
            (group.source_topics, len(one.source_topics)),
            (group.repartition_topics, len(one.repartition_topics)),
        ):
            if any(not 0 <= index < count for index in indexes):
                raise StreamsInvalidTopology(f"A copartition group of subtopology {one.id} names a topic it has not.")


def _names(one: Subtopology) -> Iterator[str]:
    yield from one.topics()
    yield from one.sink_topics
    for topic in one.changelog_topics:
        yield topic.name
