from __future__ import annotations

import pytest

from kqueue.broker.fetch.delayed_fetch import DelayedFetch
from kqueue.broker.fetch.fetch_reader import FetchLimits, FetchResult
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.broker.purgatory import DelayedOperation
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append

PLENTY = 1 << 20


@pytest.fixture
def sim() -> Simulation:
    sim = Simulation({"kqueue.storage": "memory"})
    sim.topic("t", 3)
    return sim


def delayed(sim: Simulation, indexes: list[int], min_bytes: int = 1, max_wait_ms: int = 500) -> DelayedFetch[int]:
    """A fetch whose response is the number of bytes that it has read."""

    def size(result: FetchResult) -> int:
        return result.size

    broker = sim.broker
    fetches = [PartitionFetch("t", index, 0, PLENTY) for index in indexes]
    limits = FetchLimits(PLENTY)
    return DelayedFetch(
        broker.topics, broker.scheduler.purgatory, sim.clock, fetches, limits, min_bytes, max_wait_ms, size
    )


def responses(sim: Simulation, started: int | DelayedOperation[int]) -> list[int]:
    """The list to which the purgatory adds the response of an operation that waits."""
    assert isinstance(started, DelayedOperation)
    sizes: list[int] = []
    sim.broker.scheduler.purgatory.add(started, sizes.append)
    return sizes


def test_a_fetch_of_too_little_waits_for_the_append_that_is_enough(sim: Simulation) -> None:
    partition = sim.broker.topics.partition("t", 1)
    append(partition, b"a")
    size = delayed(sim, [1]).start()
    assert isinstance(size, int), "one batch is enough for one byte"
    answers = responses(sim, delayed(sim, [0, 1], min_bytes=3 * size).start())
    append(partition, b"b")
    sim.settle()
    assert answers == []
    append(sim.broker.topics.partition("t", 0), b"c")
    sim.settle()
    assert answers == [3 * size]
    assert len(sim.broker.scheduler.purgatory) == 0


def test_a_fetch_without_records_is_answered_when_its_time_is_over_or_its_partition_goes(sim: Simulation) -> None:
    assert delayed(sim, [0], max_wait_ms=0).start() == 0
    answers = responses(sim, delayed(sim, [0], max_wait_ms=500).start())
    sim.advance(499)
    assert answers == []
    sim.advance(1)
    assert answers == [0]
    answers = responses(sim, delayed(sim, [0], max_wait_ms=500).start())
    sim.result(sim.broker.topics.delete("t"))
    assert answers == [0]


def test_a_fetch_in_slices_sees_what_is_appended_between_them(sim: Simulation) -> None:
    slices = delayed(sim, [0, 1, 2]).start_in_slices(1)
    assert [next(slices), next(slices)] == [None, None]
    append(sim.broker.topics.partition("t", 0), b"a")
    with pytest.raises(StopIteration) as stop:
        next(slices)
    assert stop.value.value == delayed(sim, [0, 1, 2]).start() != 0
