from __future__ import annotations

import random

from kqueue.records.partitioners.round_robin import RoundRobinPartitioner


def test_partitions_take_turns_whatever_the_key() -> None:
    partitioner = RoundRobinPartitioner(random.Random(1))
    assert [partitioner.partition(key, 3) for key in (b"a", None, b"a", b"a")] == [0, 1, 2, 0]


def test_topics_do_not_take_each_others_turns() -> None:
    partitioner = RoundRobinPartitioner(random.Random(1))
    assert [partitioner.partition(None, 2, topic=topic) for topic in "abababab"] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_partitions_that_are_away_are_passed_over() -> None:
    partitioner = RoundRobinPartitioner(random.Random(1))
    assert [partitioner.partition(None, 5, available=[4, 1, 3]) for _ in range(4)] == [1, 3, 4, 1]
    assert [partitioner.partition(None, 5, available=[]) for _ in range(2)] == [4, 0]
