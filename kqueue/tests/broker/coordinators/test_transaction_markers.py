from __future__ import annotations

import contextlib
import random

import pytest

from kqueue.base.errors import (
    InvalidProducerEpoch,
    StorageFailed,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.coordinators.transaction_markers import TransactionMarkers
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.log.results import AppendResult
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import ABORT, COMMIT, decode_control, iter_batches, iter_records, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.thorough import corners
from kqueue.transactions.marker_writer import MarkerResults, TransactionMarker

NOW_MS = 1_700_000_000_000


def data(partition: Partition, sequence: int = 0, *, epoch: int = 0, producer_id: int = 7) -> AppendResult:
    """Append one transactional record."""
    builder = BatchBuilder(producer_id=producer_id, epoch=epoch, base_sequence=sequence, transactional=True)
    builder.append(NOW_MS, b"k", b"v")
    batch = memoryview(builder.build())
    return partition.append(batch, read_header(batch))


def marker(*indexes: int, commit: bool = True, topic: str = "t", **fields: int | None) -> TransactionMarker:
    values = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 3, "transaction_version": 1, **fields}
    return TransactionMarker(commit=commit, partitions=[(topic, index) for index in indexes], **values)


def written(sim: Simulation, one: TransactionMarker) -> MarkerResults:
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(one, results.append)
    sim.advance(100)
    assert len(results) == 1
    return results[0]


def batches(partition: Partition) -> list[tuple[bool, int, int, int]]:
    """(is a marker, producer epoch, kind, coordinator epoch) of every batch in the log."""
    log = partition.log
    all_batches = []
    raw = log.read(0, 1 << 20, end_offset=log.end_offset).read() if log.end_offset else b""
    for position, header in iter_batches(raw):
        (record,) = iter_records(raw, position)
        kind, version = decode_control(record) if header.is_control else (-1, -1)
        value = record.value or b""
        all_batches.append(
            (header.is_control, header.producer_epoch, kind, int.from_bytes(value[2:6], "big") if version == 0 else -1)
        )
    return all_batches


@pytest.fixture
def sim() -> Simulation:
    sim = Simulation()
    sim.topic("t", 3)
    return sim


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_in_each_of_its_partitions(sim: Simulation, commit: bool) -> None:
    partitions = sim.broker.topics.get("t").partitions
    for partition in partitions[:2]:
        data(partition)
    assert written(sim, marker(0, 1, commit=commit)) == {("t", 0): None, ("t", 1): None}
    kind = COMMIT if commit else ABORT
    for partition in partitions[:2]:
        assert batches(partition) == [(False, 0, -1, -1), (True, 0, kind, 3)]
        assert partition.last_stable_offset == partition.high_watermark == 2
        assert len(partition.log.reader.aborted(0, 2)) == (not commit)
    assert not batches(partitions[2])


def test_done_is_called_when_the_markers_are_committed_and_not_before(sim: Simulation) -> None:
    partition = sim.broker.topics.partition("t", 0)
    data(partition)
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(marker(0), results.append)
    assert partition.log_end_offset == 2
    assert not results
    assert partition.last_stable_offset == 0
    sim.settle()
    assert results == [{("t", 0): None}]
    assert not partition.log.producers.ended  # without a read
    assert partition.last_stable_offset == 2


def test_each_partition_has_its_own_result(sim: Simulation) -> None:
    partitions = sim.broker.topics.get("t").partitions
    data(partitions[0], epoch=5)
    written(sim, marker(1, coordinator_epoch=9))
    results = written(sim, marker(0, 1, 2, 8, topic="t"))
    assert isinstance(results["t", 0], InvalidProducerEpoch)
    assert isinstance(results["t", 1], TransactionCoordinatorFenced)
    assert results["t", 2] is None
    assert isinstance(results["t", 8], UnknownTopicOrPartition)
    assert isinstance(written(sim, marker(0, topic="none"))["none", 0], UnknownTopicOrPartition)
    assert partitions[0].last_stable_offset == 0


def test_the_coordinator_of_a_single_broker_repeats_the_epoch_of_the_last_marker(sim: Simulation) -> None:
    """Kafka, whose epochs are lower, goes on in the folder, and would be fenced by a higher one."""
    sim.broker.replicas.host.sole_replica.begin_epoch(9)
    partitions = sim.broker.topics.get("t").partitions
    written(sim, marker(0, coordinator_epoch=2))
    assert written(sim, marker(0, 1, coordinator_epoch=None)) == {("t", 0): None, ("t", 1): None}
    assert [batch[3] for batch in batches(partitions[0])] == [2, 2]
    assert [batch[3] for batch in batches(partitions[1])] == [0]


def test_a_topic_that_is_deleted_meanwhile_is_reported(sim: Simulation) -> None:
    data(sim.broker.topics.partition("t", 0))
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(marker(0), results.append)
    sim.result(sim.broker.topics.delete("t"))
    sim.settle()
    assert isinstance(results[0]["t", 0], UnknownTopicOrPartition | None)
    assert isinstance(written(sim, marker(0))["t", 0], UnknownTopicOrPartition)


def test_a_marker_comes_behind_the_deferred_appends_of_its_partition(sim: Simulation) -> None:
    partition = sim.broker.topics.partition("t", 0)

    def slow() -> SlicedWork[AppendResult]:
        for _ in range(20):
            yield None
            sim.clock.advance(1)
        return data(partition)

    partition.defer_append(slow(), 10)
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(marker(0), results.append)
    assert not results
    sim.settle()
    assert results == [{("t", 0): None}]
    assert [is_marker for is_marker, *_ in batches(partition)] == [False, True]
    assert partition.last_stable_offset == 2


def test_thousands_of_partitions_are_written_in_slices() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    count = 2000
    sim.topic("t", count)
    stepping = TransactionMarkers(
        sim.broker.topics, sim.broker.scheduler.purgatory, sim.broker.scheduler.timers, _SteppingClock(sim)
    )
    results: list[MarkerResults] = []
    stepping.write(marker(*range(count)), results.append)
    first = sum(partition.is_open for partition in sim.broker.topics.get("t").partitions)
    assert 0 < first < count
    while not results:
        sim.advance(1)
    assert len(results[0]) == count
    assert not any(results[0].values())


class _SteppingClock:
    """A clock that goes on by 0.1 ms at each look, as if each marker took that long."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    def monotonic_ms(self) -> float:
        self._sim.clock.advance(0.1)
        return self._sim.clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._sim.clock.wall_ms()


def test_groups_learn_of_markers_in_their_topic_when_they_are_committed(sim: Simulation) -> None:
    sim.result(sim.broker.topics.create_on_demand(OFFSETS_TOPIC))
    calls: list[tuple[int, int, bool]] = []
    broker = sim.broker
    markers = TransactionMarkers(
        broker.topics,
        broker.scheduler.purgatory,
        broker.scheduler.timers,
        sim.clock,
        on_group_marker=lambda producer_id, index, commit: calls.append((producer_id, index, commit)),
    )
    results: list[MarkerResults] = []
    markers.write(
        marker(4, topic=OFFSETS_TOPIC), lambda outcomes: results.append({**outcomes, ("calls", len(calls)): None})
    )
    assert not calls
    sim.settle()
    assert calls == [(7, 4, True)]
    assert results == [{(OFFSETS_TOPIC, 4): None, ("calls", 1): None}]
    markers.write(marker(4, topic=OFFSETS_TOPIC, coordinator_epoch=1), results.append)
    markers.write(marker(0), results.append)
    sim.settle()
    assert len(calls) == 1  # neither a fenced one, nor one of another topic
    assert len(results) == 3


@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_whenever_the_power_goes_confirmed_markers_stay_and_others_can_be_repeated(remains: Remains) -> None:
    whole = FaultyStorage()
    _run(whole, MemoryStore(), [])
    for cut_at in range(1, len(whole.steps) + 1):
        storage, store, confirmed = FaultyStorage(cut_at=cut_at), MemoryStore(), list[MarkerResults]()
        with contextlib.suppress(PowerCut):
            _run(storage, store, confirmed)
        sim = Simulation(storage=storage.after_cut(remains, random.Random(cut_at)), store=store)
        topic = sim.broker.topics.find("t")
        if topic is None:
            continue
        if confirmed:
            assert [partition.last_stable_offset for partition in topic.partitions] == [2, 2]
        had_data = [partition.log_end_offset > 0 for partition in topic.partitions]
        results = written(sim, marker(0, 1, producer_epoch=1, transaction_version=2, commit=False))
        assert results == {("t", 0): None, ("t", 1): None}
        for partition, is_aborted in zip(topic.partitions, had_data, strict=True):
            assert partition.last_stable_offset == partition.log_end_offset
            aborted = partition.log.reader.aborted(0, partition.log_end_offset)
            assert [(one.producer_id, one.first_offset) for one in aborted] == [(7, 0)] * is_aborted


def _run(storage: FaultyStorage, store: MemoryStore, confirmed: list[MarkerResults]) -> None:
    sim = Simulation(storage=storage, store=store)
    topic = sim.topic("t", 2)
    for partition in topic.partitions:
        data(partition)
    sim.settle()
    one = marker(0, 1, producer_epoch=1, transaction_version=2, commit=False)
    sim.broker.coordinators.markers.write(one, confirmed.append)
    sim.settle()
    assert confirmed
    assert not any(confirmed[0].values())


def test_a_log_that_fails_reports_its_marker(sim: Simulation) -> None:
    partition = sim.broker.topics.partition("t", 0)
    data(partition)
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(marker(0, 1), results.append)
    partition.log.take_offline(StorageFailed("gone"))
    sim.settle()
    assert isinstance(results[0]["t", 0], StorageFailed)
    assert results[0]["t", 1] is None
