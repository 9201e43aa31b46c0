from __future__ import annotations

from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.time_ranges import chosen_range, time_ranges


def test_ranges_are_those_of_the_history() -> None:
    ranges = time_ranges(ClusterHistory(10_000), 1)
    assert [(each.title, each.is_current) for each in ranges] == [("20 min", False), ("2 h", True), ("12 h", False)]


def test_an_address_names_a_range() -> None:
    assert [chosen_range(query) for query in ({}, {"range": "2"}, {"range": "3"}, {"range": "-1"}, {"range": "²"})] == [
        *(0, 2, 0, 0, 0)
    ]
