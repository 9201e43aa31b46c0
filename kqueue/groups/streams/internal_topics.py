"""Decides how many partitions the internal topics of a topology have, and which are missing.

    repartition topic   declared; else the most partitions of what its writers read
    copartition group   all its topics have one number: that of its source topics, else the largest
    changelog topic     the most partitions of what its subtopology reads: one per task

A topology is ready when all its topics exist with these numbers. Pure functions.
Source: KIP-1071, Kafka InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.member import Status, StatusCode
from kqueue.groups.streams.topology import InternalTopic, Subtopology, Topology

FindCount = Callable[[str], int | None]
"""Returns the number of partitions of a topic; None: there is none."""
NAMES_MAX = 3
"""Names of topics in a status."""


class ConfiguredTopology(NamedTuple):
    """A topology against the topics of the cluster.

    Attributes:
        task_counts: subtopology id -> number of its tasks; empty if it can't be known.
        stateful: the subtopologies with state.
        topic_counts: internal topic -> number of its partitions.
        missing: the internal topics to create, with their numbers of partitions.
        status: why the group can't be assigned; None: it is ready.
    """

    task_counts: Mapping[str, int]
    stateful: frozenset[str]
    topic_counts: Mapping[str, int] = {}
    missing: tuple[InternalTopic, ...] = ()
    status: Status | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.status is None


class _TopicsUnfit(Exception):
    """The topics of the cluster do not fit: the group waits for others."""

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = Status(code, text)


def configure(topology: Topology, count_of: FindCount) -> ConfiguredTopology:
    """Return the topology with what follows from the topics that there are.

    Raises: StreamsInvalidTopology: no topics would do.
    """
    stateful = frozenset(one.id for one in topology.subtopologies if one.changelog_topics)
    try:
        _check_sources(topology, count_of)
        decided = _repartition_counts(topology, count_of)
        _enforce_copartitions(topology, decided, count_of)
        counts = {one.id: _task_count(one, decided, count_of) for one in topology.subtopologies}
        expected = _expected_topics(topology, decided, counts)
        missing = _missing_topics(expected, count_of)
    except _TopicsUnfit as error:
        return ConfiguredTopology({}, stateful, status=error.status)
    status = None
    if missing:
        names = _summary([topic.name for topic in missing])
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    topic_counts = {name: topic.partition_count for name, topic in expected.items()}
    return ConfiguredTopology(counts, stateful, topic_counts, tuple(missing), status)


def _check_sources(topology: Topology, count_of: FindCount) -> None:
    names = {name for one in topology.subtopologies for name in one.source_topics}
    missing = sorted(name for name in names if count_of(name) is None)
    if missing:
        raise _TopicsUnfit(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _repartition_counts(topology: Topology, count_of: FindCount) -> dict[str, int]:
    """Return topic -> number of partitions. Writers are decided before the readers of a topic."""
    decided = {
        topic.name: topic.partition_count
        for one in topology.subtopologies
        for topic in one.repartition_topics
        if topic.partition_count
    }
    writers: dict[str, list[Subtopology]] = {}
    for one in topology.subtopologies:
        for name in one.sink_topics:
            writers.setdefault(name, []).append(one)
    open_topics = [
        topic.name for one in topology.subtopologies for topic in one.repartition_topics if topic.name not in decided
    ]
    under_way: set[str] = set()
    while open_topics:
        name = open_topics[-1]
        if name in decided:
            open_topics.pop()
            continue
        if name not in writers:
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic."
            )
        reads = [topic.name for one in writers[name] for topic in one.repartition_topics]
        undecided = [each for each in reads if each not in decided]
        if undecided and name in under_way:
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved."
            )
        if undecided:
            under_way.add(name)
            open_topics.extend(undecided)
        else:
            sources = [count_of(each) or 0 for one in writers[name] for each in one.source_topics]
            decided[name] = max([*sources, *(decided[each] for each in reads)])
    return decided


def _enforce_copartitions(topology: Topology, decided: dict[str, int], count_of: FindCount) -> None:
    topics = [topic for one in topology.subtopologies for topic in one.repartition_topics]
    fixed = {topic.name for topic in topics if topic.partition_count}
    repartition = {topic.name for topic in topics}
    for one in topology.subtopologies:
        for group in one.copartition_groups:
            names = one.copartitioned(group)
            if names:
                _enforce(set(names), fixed, repartition, decided, count_of)


def _enforce(
    names: set[str], fixed: Collection[str], repartition: Collection[str], decided: dict[str, int], count_of: FindCount
) -> None:
    """Give the repartition topics of a copartition group the number of partitions of the group."""
    sources = {name: count_of(name) or 0 for name in names if name not in repartition}
    declared = {name: decided[name] for name in names if name in fixed}
    internal = [name for name in names if name in repartition]
    known = sources or declared
    count = _same_count(known) if known else max(decided[name] for name in internal)
    for name in sorted(internal):
        if name in fixed and decided[name] != count:
            raise _TopicsUnfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{decided[name]}] of repartition topic [{name}] doesn't match number of "
                f"partitions [{count}] of the source topic.",
            )
        decided[name] = count


def _same_count(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name}={counts[name]}" for name in sorted(counts)[:NAMES_MAX])
        raise _TopicsUnfit(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{shown}}}]",
        )
    return next(iter(counts.values()))


def _task_count(one: Subtopology, decided: Mapping[str, int], count_of: FindCount) -> int:
    return max(decided[name] if (count := count_of(name)) is None else count for name in one.topics())


def _expected_topics(
    topology: Topology, decided: Mapping[str, int], task_counts: Mapping[str, int]
) -> dict[str, InternalTopic]:
    """Return the internal topics with their numbers of partitions."""
    expected: dict[str, InternalTopic] = {}
    for one in topology.subtopologies:
        for topic in one.repartition_topics:
            expected[topic.name] = topic._replace(partition_count=decided[topic.name])
        for topic in one.changelog_topics:
            expected[topic.name] = topic._replace(partition_count=task_counts[one.id])
    return expected


def _missing_topics(expected: Mapping[str, InternalTopic], count_of: FindCount) -> list[InternalTopic]:
    """Return the internal topics that do not exist, by name."""
    missing = []
    for name in sorted(expected):
        count = count_of(name)
        if count is None:
            missing.append(expected[name])
        elif count != expected[name].partition_count:
            raise _TopicsUnfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{expected[name].partition_count}, found {count}",
            )
    return missing


def _summary(names: Iterable[str]) -> str:
    """Return the first names, and how many follow."""
    every = list(names)
    more = f" and {len(every) - NAMES_MAX} additional topics" if len(every) > NAMES_MAX else ""
    return ", ".join(every[:NAMES_MAX]) + more
