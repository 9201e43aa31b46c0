"""One pass over the partitions of a fetch; the API's tests show the rest."""

from __future__ import annotations

import pytest

from kqueue.base.errors import (
    FencedLeaderEpoch,
    KqueueError,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.broker.fetch.fetch_reader import DivergingEpoch, FetchLimits, FetchResult, find_partition, read_partitions
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append

PLENTY = FetchLimits(1 << 20)


@pytest.fixture
def sim() -> Simulation:
    sim = Simulation({"kqueue.storage": "memory"})
    topic = sim.topic("t", 3)
    for index in (0, 1):
        for value in (b"a", b"b"):
            append(topic.partition(index), value)
    return sim


def fetch(index: int, offset: int = 0, size: int = 1 << 20, topic: str | bytes = "t", **fields: int) -> PartitionFetch:
    return PartitionFetch(topic, index, offset, size, **fields)


def sizes(result: FetchResult) -> list[int]:
    return [
        len(partition_result.read.fetched) if partition_result.read is not None else -1
        for partition_result in result.results
    ]


def test_adds_up_what_each_partition_gives(sim: Simulation) -> None:
    result = read_partitions(sim.broker.topics, [fetch(0), fetch(1), fetch(2)], PLENTY)
    first, second, third = sizes(result)
    assert (first, third, result.size) == (second, 0, first + second)
    assert (result.missing, result.urgent) == (0, False)
    assert [partition.index for partition in result.partitions()] == [0, 1, 2]


def test_the_limit_is_for_all_together_and_one_batch_comes_first(sim: Simulation) -> None:
    whole = read_partitions(sim.broker.topics, [fetch(0)], PLENTY).size
    assert sizes(read_partitions(sim.broker.topics, [fetch(2), fetch(0), fetch(1)], FetchLimits(1))) == [
        0,
        whole // 2,
        0,
    ]
    assert sizes(read_partitions(sim.broker.topics, [fetch(0), fetch(1)], FetchLimits(whole + whole // 2))) == [
        whole,
        whole // 2,
    ]
    assert sizes(read_partitions(sim.broker.topics, [fetch(0), fetch(1)], FetchLimits(0, each_one_batch=True))) == [
        whole // 2,
        whole // 2,
    ]


@pytest.mark.parametrize(
    ("requested", "error", "missing", "urgent"),
    [
        (fetch(7), UnknownTopicOrPartition, 1, False),
        (fetch(0, topic="nobody"), UnknownTopicOrPartition, 1, False),
        (fetch(0, topic=b"\x01" * 16), UnknownTopicId, 1, False),
        (fetch(0, 9), OffsetOutOfRange, 0, True),
        (fetch(0, leader_epoch=99), UnknownLeaderEpoch, 0, True),
        (fetch(0, last_fetched_epoch=99), OffsetOutOfRange, 0, True),
    ],
)
def test_errors_are_reported_per_partition(
    sim: Simulation, requested: PartitionFetch, error: type[KqueueError], missing: int, urgent: bool
) -> None:
    result = read_partitions(sim.broker.topics, [requested, fetch(0)], PLENTY)
    assert type(result.results[0].error) is error
    assert (result.missing, result.urgent) == (missing, urgent)
    assert sizes(result)[1] > 0


def test_an_older_epoch_is_fenced(sim: Simulation) -> None:
    sim.broker.replicas.host.sole_replica.begin_epoch(4)
    (results,) = read_partitions(sim.broker.topics, [fetch(0, leader_epoch=3)], PLENTY).results
    assert isinstance(results.error, FencedLeaderEpoch)


def test_a_divergence_is_urgent_and_gives_no_records(sim: Simulation) -> None:
    sim.broker.replicas.host.sole_replica.begin_epoch(7)
    append(sim.broker.topics.partition("t", 0), b"c")
    result = read_partitions(sim.broker.topics, [fetch(0, 3, last_fetched_epoch=6)], PLENTY)
    assert (result.results[0].diverging, result.urgent, result.size) == (DivergingEpoch(0, 2), True, 0)


def test_a_partition_is_looked_up_once_and_again_after_its_topic_went(sim: Simulation) -> None:
    requested = fetch(0)
    partition = find_partition(sim.broker.topics, requested)
    assert requested.partition is partition is find_partition(sim.broker.topics, requested)
    sim.result(sim.broker.topics.delete("t"))
    assert find_partition(sim.broker.topics, requested) is None
    again = sim.topic("t").partition(0)
    assert find_partition(sim.broker.topics, requested) is again


def test_a_partition_that_is_where_its_client_is_is_idle_the_second_time(sim: Simulation) -> None:
    partition = sim.broker.topics.partition("t", 0)
    requested = fetch(0, 2)
    for expected in (0, 1, 1):
        result = read_partitions(sim.broker.topics, [requested, fetch(1)], PLENTY)
        assert len(result.idle) == expected
        assert set(result.partitions()) == {partition, sim.broker.topics.partition("t", 1)}
    append(partition, b"c")
    assert read_partitions(sim.broker.topics, [requested], PLENTY).size > 0


@pytest.mark.parametrize("fields", [{"leader_epoch": 99}, {"last_fetched_epoch": 99}])
def test_a_partition_with_an_error_is_not_idle(sim: Simulation, fields: dict[str, int]) -> None:
    requested = fetch(0, 2)
    read_partitions(sim.broker.topics, [requested], PLENTY)
    for name, value in fields.items():
        setattr(requested, name, value)
    result = read_partitions(sim.broker.topics, [requested], PLENTY)
    assert (result.idle, result.urgent) == ([], True)


def test_a_failed_disk_and_a_deleted_topic_are_not_idle(sim: Simulation) -> None:
    failed, deleted = fetch(0, 2), fetch(1, 2)
    read_partitions(sim.broker.topics, [failed, deleted], PLENTY)
    sim.broker.topics.partition("t", 0).log.take_offline(StorageFailed("gone"))
    (results,) = read_partitions(sim.broker.topics, [failed], PLENTY).results
    assert isinstance(results.error, StorageFailed)
    sim.result(sim.broker.topics.delete("t"))
    assert read_partitions(sim.broker.topics, [deleted], PLENTY).missing == 1


def test_topics_are_found_by_id(sim: Simulation) -> None:
    topic = sim.broker.topics.get("t")
    assert find_partition(sim.broker.topics, fetch(1, topic=topic.id)) is topic.partition(1)
