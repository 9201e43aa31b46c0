from __future__ import annotations

import pytest

from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.internal_topics import ConfiguredTopology, configure
from kqueue.groups.streams.member import StatusCode
from kqueue.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kqueue.tests.groups.streams.applications import COUNT, COUNTS, JOIN, MAP, WORDS
from kqueue.tests.tables import for_each


def against(topology: Topology, **counts: int) -> ConfiguredTopology:
    return configure(topology, {name.replace("_", "-"): count for name, count in counts.items()}.get)


def test_internal_topics_have_the_partitions_of_what_is_read() -> None:
    configured = against(COUNT, t=3)
    assert configured.missing == (COUNTS._replace(partition_count=3), WORDS._replace(partition_count=3))
    assert configured.status is not None
    assert configured.status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert configured.status.detail == "Internal topics are missing: app-counts, app-words"
    assert configured.task_counts == {"0": 3, "1": 3}
    assert configured.stateful == {"1"}


def test_a_topology_is_ready_when_all_topics_are_there() -> None:
    assert against(COUNT, t=3, app_words=3, app_counts=3).is_ready
    assert against(MAP, t=3).is_ready


def test_missing_source_topics_are_named_first() -> None:
    names = tuple(f"s{number}" for number in range(5))
    configured = against(Topology(0, (Subtopology("0", names, changelog_topics=(COUNTS,)),)), s4=1)
    assert configured.status is not None
    assert configured.status.code is StatusCode.MISSING_SOURCE_TOPICS
    assert configured.status.detail == "Source topics s0, s1, s2 and 1 additional topics are missing."
    assert (configured.task_counts, configured.missing, configured.is_ready) == ({}, (), False)


def test_a_topic_with_another_number_of_partitions_is_reported() -> None:
    configured = against(COUNT, t=3, app_words=3, app_counts=2)
    assert configured.status is not None
    assert configured.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "expected 3, found 2" in configured.status.detail


def test_the_largest_of_what_the_writers_read_counts() -> None:
    topology = Topology(
        0,
        (
            Subtopology("2", repartition_topics=(InternalTopic("r2"),)),
            Subtopology("1", ("u",), repartition_topics=(InternalTopic("r1"),), sink_topics=("r2",)),
            Subtopology("0", ("t",), sink_topics=("r1", "r2")),
        ),
    )
    configured = against(topology, t=2, u=5)
    assert {topic.name: topic.partition_count for topic in configured.missing} == {"r1": 2, "r2": 5}


def test_a_declared_number_of_partitions_stays() -> None:
    declared = Topology(0, (Subtopology("1", repartition_topics=(InternalTopic("r", 7),)),))
    assert [topic.partition_count for topic in against(declared).missing] == [7]


@for_each(
    "counts, count",
    [({"t": 4, "u": 2}, 4), ({"t": 2, "u": 4}, 2)],
)
def test_joined_repartition_topic_has_the_partitions_of_the_source(counts: dict[str, int], count: int) -> None:
    assert [topic.partition_count for topic in against(JOIN, **counts).missing] == [count]


def joined(*repartition_topics: InternalTopic, sources: tuple[str, ...] = ()) -> Topology:
    group = CopartitionGroup(tuple(range(len(sources))), tuple(range(len(repartition_topics))))
    names = tuple(topic.name for topic in repartition_topics)
    reading = Subtopology("1", sources, repartition_topics, copartition_groups=(group,))
    return Topology(0, (Subtopology("0", ("t",), sink_topics=names), reading))


def test_copartitioned_topics_must_have_one_number() -> None:
    configured = against(joined(sources=("t", "u")), t=3, u=2)
    assert configured.status is not None
    assert configured.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.status.detail == "Following topics do not have the same number of partitions: [{t=3, u=2}]"
    configured = against(joined(InternalTopic("r", 5), sources=("u",)), t=3, u=2)
    assert configured.status is not None
    assert "[5] of repartition topic [r] doesn't match number of partitions [2]" in configured.status.detail


def test_copartitioned_internal_topics_have_the_declared_or_the_largest_number() -> None:
    two = against(joined(InternalTopic("r", 5), InternalTopic("s")), t=3)
    assert [topic.partition_count for topic in two.missing] == [5, 5]
    two = against(joined(InternalTopic("r"), InternalTopic("s")), t=3)
    assert [topic.partition_count for topic in two.missing] == [3, 3]


@for_each(
    "subtopologies, words",
    [
        ([Subtopology("0", repartition_topics=(InternalTopic("r"),))], "never used as a sink topic"),
        ([Subtopology("0", repartition_topics=(InternalTopic("r"),), sink_topics=("r",))], "loops"),
        (
            [
                Subtopology("0", repartition_topics=(InternalTopic("r"),), sink_topics=("s",)),
                Subtopology("1", repartition_topics=(InternalTopic("s"),), sink_topics=("r",)),
            ],
            "loops",
        ),
    ],
)
def test_impossible_topology_is_refused(subtopologies: list[Subtopology], words: str) -> None:
    with pytest.raises(StreamsInvalidTopology, match=words):
        against(Topology(0, tuple(subtopologies)))


def test_a_long_chain_is_decided_in_one_pass() -> None:
    count = 3000
    chain = [
        Subtopology(str(number), repartition_topics=(InternalTopic(f"r{number}"),), sink_topics=(f"r{number + 1}",))
        for number in reversed(range(count))
    ]
    topology = Topology(0, (*chain, Subtopology("source", ("t",), sink_topics=("r0",))))
    assert set(against(topology, t=6).task_counts.values()) == {6}
