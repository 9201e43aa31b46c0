from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.fetch import delayed_fetch
from kqueue.broker.fetch.delayed_fetch import DelayedFetch
from kqueue.broker.fetch.fetch_reader import FetchLimits, FetchResult, read_partitions
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topics
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.compiled import replaces_compiled

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


def passes_of(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list to which each pass over partitions adds their indexes."""
    passes: list[list[int]] = []

    def read(topics: Topics, fetches: Sequence[PartitionFetch], *more: Any) -> FetchResult:
        passes.append([fetch.index for fetch in fetches])
        return read_partitions(topics, fetches, *more)

    monkeypatch.setattr(delayed_fetch, "read_partitions", read)
    return passes


def waiting(sim: Simulation, min_bytes: int = 1) -> list[FetchResult]:
    """Begin a fetch of a session that is at the end of all partitions; return its results."""
    broker = sim.broker
    partitions = [broker.topics.partition("t", index) for index in range(3)]
    fetches = [PartitionFetch("t", index, 0, PLENTY, partition=partitions[index]) for index in range(3)]
    for partition in partitions:
        assert partition.high_watermark == 0, "which opens its log"
    started = DelayedFetch(
        broker.topics, broker.scheduler.purgatory, sim.clock, fetches, FetchLimits(PLENTY), min_bytes, 500, _unchanged
    ).start()
    assert isinstance(started, DelayedOperation)
    results: list[FetchResult] = []
    broker.scheduler.purgatory.add(started, results.append)
    return results


def _unchanged(result: FetchResult) -> FetchResult:
    return result


@replaces_compiled
def test_fetch_that_waits_reads_only_the_partition_that_changed(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = passes_of(monkeypatch)
    results = waiting(sim)
    append(sim.broker.topics.partition("t", 1), b"a")
    sim.settle()
    assert passes == [[0, 1, 2], [1]]
    assert [result.fetch.index for result in results[0].results] == [1]
    assert [fetch.index for fetch, _ in results[0].idle] == [0, 2]


@replaces_compiled
def test_fetch_of_too_little_reads_all_again_once_it_has_something(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = passes_of(monkeypatch)
    results = waiting(sim, min_bytes=PLENTY)
    for index in (2, 0):
        append(sim.broker.topics.partition("t", index), b"a")
        sim.settle()
    assert (passes, results) == ([[0, 1, 2], [2], [0, 1, 2]], [])
    sim.advance(500)
    assert [result.fetch.index for result in results[0].results] == [0, 2]


@replaces_compiled
def test_fetch_whose_time_is_over_without_news_reads_nothing(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = passes_of(monkeypatch)
    results = waiting(sim)
    sim.advance(500)
    assert passes == [[0, 1, 2]]
    assert [fetch.index for fetch, _ in results[0].unreported] == [0, 1, 2]


def test_partitions_that_are_deleted_while_a_fetch_waits_end_the_wait(sim: Simulation) -> None:
    results = waiting(sim)
    sim.result(sim.broker.topics.delete("t"))
    assert (results[0].missing, results[0].idle) == (3, [])


def test_log_that_fails_while_a_fetch_waits_ends_the_wait(sim: Simulation) -> None:
    results = waiting(sim)
    sim.broker.topics.partition("t", 1).log.take_offline(StorageFailed("the disk is gone"))
    sim.settle()
    assert isinstance(results[0].results[0].error, StorageFailed)
