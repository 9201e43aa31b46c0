from __future__ import annotations

from random import Random

from kqueue.records.partitioners.random import RandomPartitioner


def test_every_partition_is_as_likely() -> None:
    partitioner = RandomPartitioner(Random(1))
    places = [partitioner.partition(b"same", 4) for _ in range(4000)]
    assert all(900 < places.count(place) < 1100 for place in range(4))


def test_partitions_that_are_away_get_nothing() -> None:
    partitioner = RandomPartitioner(Random(1))
    assert {partitioner.partition(None, 10, available=[7, 2]) for _ in range(100)} == {2, 7}
    assert {partitioner.partition(None, 3, available=[]) for _ in range(100)} == {0, 1, 2}
