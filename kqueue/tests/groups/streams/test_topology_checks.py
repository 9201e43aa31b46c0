from __future__ import annotations

import pytest

from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.heartbeat_checks import check_topology
from kqueue.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kqueue.tests.groups.streams.applications import COUNT, JOIN, MAP
from kqueue.tests.tables import for_each


@for_each("topology", [COUNT, JOIN, MAP, Topology(0)])
def test_a_sound_topology(topology: Topology) -> None:
    check_topology(topology)


@for_each(
    "subtopologies, words",
    [
        ([Subtopology("0", ("t",)), Subtopology("0", ("u",))], "same id"),
        ([Subtopology("0")], "Subtopology 0 does not contain any source topics"),
        ([Subtopology("0", ("__consumer_offsets",))], "internal topics __consumer_offsets"),
        ([Subtopology("0", ("t",), sink_topics=("a b",))], "not valid topic names"),
        ([Subtopology("0", ("",))], "not valid topic names"),
        ([Subtopology("0", ("t",), changelog_topics=(InternalTopic("c", 3),))], "Changelog topic c must have"),
        ([Subtopology("0", repartition_topics=(InternalTopic("r", -1),))], "negative number"),
        ([Subtopology("0", ("t",), copartition_groups=(CopartitionGroup((1,)),))], "names a topic it has not"),
        ([Subtopology("0", ("t",), copartition_groups=(CopartitionGroup((), (-1,)),))], "names a topic it has not"),
    ],
)
def test_a_topology_that_no_topics_would_fit(subtopologies: list[Subtopology], words: str) -> None:
    with pytest.raises(StreamsInvalidTopology, match=words):
        check_topology(Topology(0, tuple(subtopologies)))
