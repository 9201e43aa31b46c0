from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kqueue.base.errors import InvalidProducerEpoch, KqueueError, RecordTooLarge, StorageFailed
from kqueue.broker.coordinators.internal_topic_log import OffsetsTopicLog
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.groups.errors import InvalidCommitOffsetSize
from kqueue.groups.log.group_log import EndMarker, TransactionalProducer, TransactionalRecord
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import ABORT, COMMIT, Record, control_key_value, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.groups.support import is_pending
from kqueue.tests.tables import for_each
from kqueue.transactions.marker_writer import MarkerResults, TransactionMarker

PRODUCER = TransactionalProducer(7, 0)
SMALL = {"offsets.topic.num.partitions": 1}


def log_of(sim: Simulation) -> OffsetsTopicLog:
    return sim.broker.coordinators.offsets_log


def test_the_topic_and_a_folder_come_with_the_first_append_and_done_with_the_flush() -> None:
    sim = Simulation({"offsets.topic.num.partitions": 5})
    news = list[KqueueError | None]()
    assert log_of(sim).partition_count == 5
    log_of(sim).append(3, [(b"k", b"v"), (b"gone", None)], news.append)
    assert news == []
    sim.settle()
    assert news == [None]
    assert [entry.name for entry in sim.storage.list("") if entry.name.startswith(OFFSETS_TOPIC)] == [
        f"{OFFSETS_TOPIC}-3"
    ]
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 3)
    assert list(log_of(sim).read(partition)) == [(b"k", b"v"), (b"gone", None)]


def test_appends_while_the_topic_is_made_keep_their_order() -> None:
    sim = Simulation()
    done = list[int]()
    for number in range(3):
        log_of(sim).append(0, [(b"%d" % number, b"")], lambda error, number=number: done.append(number))
    sim.jobs.step()  # the topic is there now, the queue is not drained yet
    assert sim.broker.topics.find(OFFSETS_TOPIC) is not None
    log_of(sim).append(0, [(b"3", b"")], lambda error: done.append(3))
    sim.settle()
    assert done == [0, 1, 2, 3]
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    assert [key for key, _ in log_of(sim).read(partition)] == [b"0", b"1", b"2", b"3"]


def test_the_number_of_partitions_is_that_of_the_topic_once_it_is_there() -> None:
    sim = Simulation({"offsets.topic.num.partitions": 5})
    log_of(sim).append(0, [(b"\x7f\xffa kind of key that nobody knows", b"v")], lambda error: None)
    sim.settle()
    sim.stop()
    assert (
        log_of(sim.restarted(lambda settings: settings.update({"offsets.topic.num.partitions": 9}))).partition_count
        == 5
    )


def test_a_record_is_no_larger_than_the_topic_allows() -> None:
    """As in Kafka, so what members say and are assigned in one generation is bounded too. What only
    deletes is not.
    """
    sim = Simulation({"message.max.bytes": 10_000})
    news = list[KqueueError | None]()
    log_of(sim).append(0, [(b"k", bytes(10_000))], news.append)
    log_of(sim).append(0, [(b"k%d" % number, None) for number in range(10_000)], news.append)
    sim.settle()
    assert isinstance(news[0], RecordTooLarge)
    assert "max.message.bytes of __consumer_offsets is 10000" in str(news[0])
    assert news[1] is None
    assert sim.broker.topics.partition(OFFSETS_TOPIC, 0).log_start_offset == 0
    promise = sim.broker.coordinators.groups.commit(
        "g", -1, "", None, [OffsetToCommit("t", number, 1, -1, "x" * 100) for number in range(100)]
    )
    with pytest.raises(InvalidCommitOffsetSize):
        sim.result(promise)
    assert sim.broker.coordinators.groups.limits.offset_bytes == 0


def test_a_log_that_is_offline_says_so() -> None:
    sim = Simulation()
    news = list[KqueueError | None]()
    log_of(sim).append(0, [(b"k", b"v")], news.append)
    sim.settle()
    sim.broker.topics.partition(OFFSETS_TOPIC, 0).log._fail(StorageFailed("the disk is gone"))
    log_of(sim).append(0, [(b"k", b"v")], news.append)
    assert news[0] is None
    assert isinstance(news[1], StorageFailed)


def write_marker(sim: Simulation, partition: Partition, producer_id: int, kind: int) -> None:
    records = [Record(0, 1, *control_key_value(kind, 0))]
    raw = build_batch(records, producer_id=producer_id, epoch=0, transactional=True, control=True)
    partition.append(memoryview(raw), read_header(raw), client=False)
    sim.settle()


def test_a_batch_of_a_transaction_is_as_kafka_writes_it() -> None:
    sim = Simulation()
    log_of(sim).append(0, [(b"k", b"v"), (b"l", b"w")], lambda error: None, TransactionalProducer(7, 3))
    sim.settle()
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    header = read_header(partition.read_now(0, 1000).read())
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 3, 0, 2)
    assert header.is_transactional
    assert not header.is_control
    assert partition.last_stable_offset == 0
    write_marker(sim, partition, 7, COMMIT)
    assert partition.last_stable_offset == 3


def test_replay_yields_transactions_with_their_markers() -> None:
    sim = Simulation()
    log = log_of(sim)
    for producer_id in (1, 2, 3):
        log.append(0, [(b"k%d" % producer_id, b"v")], lambda error: None, TransactionalProducer(producer_id, 0))
        log.append(0, [(b"plain", b"%d" % producer_id)], lambda error: None)
    sim.settle()
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    write_marker(sim, partition, 2, ABORT)
    write_marker(sim, partition, 1, COMMIT)
    assert list(log.read(partition)) == [
        TransactionalRecord(1, b"k1", b"v"),
        (b"plain", b"1"),
        TransactionalRecord(2, b"k2", b"v"),
        (b"plain", b"2"),
        TransactionalRecord(3, b"k3", b"v"),
        (b"plain", b"3"),
        EndMarker(2, False),
        EndMarker(1, True),
    ]


def test_a_fenced_producer_commits_nothing() -> None:
    sim = Simulation()
    news = list[KqueueError | None]()
    log_of(sim).append(0, [(b"k", b"1")], news.append, TransactionalProducer(7, 3))
    sim.settle()
    log_of(sim).append(0, [(b"k", b"2")], news.append, TransactionalProducer(7, 2))
    sim.settle()
    assert news[0] is None
    assert isinstance(news[1], InvalidProducerEpoch)


def end_transaction(sim: Simulation, committed: bool) -> None:
    """Write the marker as the transaction coordinator does."""
    partition = (OFFSETS_TOPIC, sim.broker.coordinators.groups.partition_of("g"))
    marker = TransactionMarker(7, 0, committed, 0, 1, [partition])
    results: list[MarkerResults] = []
    sim.broker.coordinators.markers.write(marker, results.append)
    sim.settle()
    assert results == [{partition: None}]


def commit(sim: Simulation, offset: int, producer: TransactionalProducer | None = PRODUCER) -> None:
    groups, offsets = sim.broker.coordinators.groups, [OffsetToCommit("t", 0, offset)]
    if producer is None:
        promise = groups.commit("g", -1, "", None, offsets)
    else:
        promise = groups.commit_in_transaction("g", producer, -1, "", None, offsets)
    assert sim.result(promise) == [None]


def committed_offset(sim: Simulation) -> int | None:
    committed = sim.broker.coordinators.groups.offsets("g").get("t", {}).get(0)
    return None if committed is None else committed.offset


def test_a_restart_keeps_an_open_transaction_pending() -> None:
    sim = Simulation()
    commit(sim, 5)
    sim.stop()
    sim = sim.restarted()
    assert is_pending(sim.broker.coordinators.groups, "g", "t", 0)
    assert committed_offset(sim) is None
    end_transaction(sim, committed=True)
    assert committed_offset(sim) == 5
    sim.stop()
    sim = sim.restarted()
    assert not is_pending(sim.broker.coordinators.groups, "g", "t", 0)
    assert committed_offset(sim) == 5


Step = tuple[int | None, bool]
"""Committed offset and whether one is pending, after a step."""


def live_with_transactions(sim: Simulation, answered: list[Step]) -> None:
    steps: list[Callable[[], None]] = [
        lambda: commit(sim, 1, None),
        lambda: commit(sim, 2),
        lambda: end_transaction(sim, committed=True),
        lambda: commit(sim, 3),
        lambda: end_transaction(sim, committed=False),
        lambda: commit(sim, 4),
        lambda: commit(sim, 5, None),
        lambda: end_transaction(sim, committed=True),
    ]
    for step in steps:
        step()
        answered.append((committed_offset(sim), is_pending(sim.broker.coordinators.groups, "g", "t", 0)))


@for_each("remains", list(Remains))
def test_the_power_may_fail_at_every_step_of_transactions(remains: Remains) -> None:
    """Durability: what was answered is there after a power cut, pending offsets included."""
    whole, history = FaultyStorage(), list[Step]()
    live_with_transactions(Simulation(SMALL, storage=whole), history)
    assert history == [
        (1, False), (1, True), (2, False), (2, True), (2, False), (2, True), (5, True), (5, False)
    ]  # fmt: skip
    expected = [(None, False), *history]
    for cut_at in range(1, len(whole.steps) + 1):
        storage, store, answered = FaultyStorage(cut_at=cut_at), MemoryStore(), list[Step]()
        with pytest.raises(PowerCut):
            live_with_transactions(Simulation(SMALL, storage=storage, store=store), answered)
        sim = Simulation(SMALL, storage=storage.after_cut(remains, random.Random(cut_at)), store=store)
        outcome = (committed_offset(sim), is_pending(sim.broker.coordinators.groups, "g", "t", 0))
        at = len(answered)
        assert outcome in expected[at : at + 2], f"cut at {cut_at}: {at} steps were answered"
