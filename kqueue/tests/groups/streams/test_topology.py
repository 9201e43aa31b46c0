from __future__ import annotations

from kqueue.groups.streams.topology import Topology, item_count, topology_bytes
from kqueue.tests.groups.streams.applications import COUNT, JOIN, MAP


def test_a_topology_knows_who_reads_a_topic() -> None:
    assert COUNT.source_topics() == {"t": "0", "app-words": "1"}
    assert COUNT.required_topics() == {"t", "app-words", "app-counts"}
    assert JOIN.subtopologies[0].copartitioned(JOIN.subtopologies[0].copartition_groups[0]) == ["t", "app-words"]


def test_the_size_grows_with_each_name() -> None:
    assert item_count(Topology(0)) == topology_bytes(Topology(0)) == 0
    assert item_count(MAP) == 2
    assert item_count(COUNT) == 2 + 2 + 2 * 2
    assert item_count(JOIN) == 2 + 3 + 2 + 3
    assert topology_bytes(COUNT) > topology_bytes(MAP) > item_count(MAP)
