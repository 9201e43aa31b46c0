from __future__ import annotations

import random
from itertools import groupby

from kqueue.records.partitioners.sticky import StickyPartitioner
from kqueue.tests.tables import for_each


def sticky(batch_bytes: int = 1000) -> StickyPartitioner:
    return StickyPartitioner(random.Random(1), batch_bytes)


def runs(places: list[int]) -> list[int]:
    return [len(list(group)) for _, group in groupby(places)]


def test_partition_changes_after_each_batch() -> None:
    partitioner = sticky()
    places = [partitioner.partition(b"k" * 50, 3, value=b"v" * 50) for _ in range(100)]
    assert runs(places) == [10] * 10
    assert set(places) == {0, 1, 2}


def test_values_that_are_not_shown_count_as_something() -> None:
    partitioner = sticky()
    assert runs([partitioner.partition(None, 5) for _ in range(40)]) == [4] * 10


def test_topics_have_their_own() -> None:
    partitioner = sticky()
    first = {topic: partitioner.partition(None, 1000, topic=topic) for topic in "abc"}
    assert {topic: partitioner.partition(None, 1000, topic=topic) for topic in "abc"} == first
    partitioner.new_batch("b")
    again = {topic: partitioner.partition(None, 1000, topic=topic) for topic in "abc"}
    assert [topic for topic in "abc" if again[topic] != first[topic]] == ["b"]


def test_unavailable_partition_is_avoided() -> None:
    partitioner = sticky()
    assert partitioner.partition(None, 4, available=[2]) == 2
    assert partitioner.partition(None, 4, available=[1, 2, 3]) == 2
    assert partitioner.partition(None, 4, available=[3]) == 3
    assert {partitioner.partition(None, 4, available=[0, 1], value=b"x" * 1000) for _ in range(10)} == {0, 1}


def test_removed_partition_is_left() -> None:
    partitioner = sticky()
    partitioner.partition(None, 9, available=[8])
    assert partitioner.partition(None, 1) == 0


def test_single_partition_is_always_chosen() -> None:
    partitioner = sticky()
    assert {partitioner.partition(None, 1, value=b"x" * 5000) for _ in range(5)} == {0}


def test_a_new_batch_before_the_first_record_is_nothing() -> None:
    partitioner = sticky()
    partitioner.new_batch("t")
    assert partitioner.partition(None, 3, topic="t") in range(3)


@for_each("count", [2, 10])
def test_no_partition_is_preferred(count: int) -> None:
    partitioner = sticky()
    places = [partitioner.partition(None, count, value=b"x" * 1000) for _ in range(2000)]
    for place in range(count):
        assert abs(places.count(place) - 2000 / count) < 600 / count
