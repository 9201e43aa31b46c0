from __future__ import annotations

import random

import pytest

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import ConcurrentTransactions, KqueueError, NotCoordinator
from kqueue.base.promise import Promise
from kqueue.broker.coordinators.internal_topic_log import InternalTopicLog, TransactionTopicLog
from kqueue.broker.topics.topics import TRANSACTIONS_TOPIC
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import ABORT, COMMIT, Record, decode_control, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.thorough import corners, parts
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch


def log_of(sim: Simulation) -> TransactionTopicLog:
    broker = sim.broker
    return TransactionTopicLog(broker.config, broker.topics, broker.scheduler.purgatory, broker.scheduler.clock)


def test_the_topic_comes_with_the_first_append_and_its_records_are_read_in_order() -> None:
    sim = Simulation({"transaction.state.log.num.partitions": 3, "transaction.state.log.segment.bytes": 1_000_000})
    log = log_of(sim)
    assert isinstance(log, InternalTopicLog)
    assert log.partition_count == 3
    news = list[KqueueError | None]()
    log.append(2, [(b"k", b"v")], news.append)
    log.append(2, [(b"k", None)], news.append)
    sim.settle()
    assert news == [None, None]
    topic = sim.broker.topics.get(TRANSACTIONS_TOPIC)
    assert topic.is_internal
    assert topic.config["cleanup.policy"] == ["compact"]
    assert topic.config["segment.bytes"] == 1_000_000
    assert [partition.index for partition in log.used_partitions(sim.logs.has)] == [2]
    assert list(log.read(topic.partition(2))) == [(b"k", b"v"), (b"k", None)]


def test_a_replay_reads_as_much_at_once_as_the_setting_says() -> None:
    sim = Simulation({"transaction.state.log.load.buffer.size": 1})
    log = log_of(sim)
    assert log.load_bytes == 1
    for number in range(5):
        log.append(0, [(b"%d" % number, bytes(100))], lambda error: None)
    sim.settle()
    partition = sim.broker.topics.partition(TRANSACTIONS_TOPIC, 0)
    assert [key for key, _ in log.read(partition)] == [b"0", b"1", b"2", b"3", b"4"]


SMALL: dict[str, object] = {"transaction.state.log.num.partitions": 1}
PARTITIONS = [("t", 0), ("t", 1)]
Answers = list[tuple[str, ProducerIdAndEpoch]]


def transact(sim: Simulation, answers: Answers) -> None:
    """Commit one transaction, abort another; note what was answered."""
    transactions = sim.broker.coordinators.transactions
    topic = sim.topic("t", 2)
    sim.settle()

    def done(what: str, promise: Promise[ProducerIdAndEpoch]) -> ProducerIdAndEpoch:
        producer = sim.result(promise)
        answers.append((what, producer))
        return producer

    producer = done("init", transactions.init_producer_id("tx", 60_000))
    for what in ("commit", "abort"):
        sim.result(transactions.add_partitions("tx", *producer, PARTITIONS, transaction_version=2))
        for partition in topic.partitions:
            batch = memoryview(
                build_batch(
                    [Record(0, 1, None, b"v")],
                    transactional=True,
                    producer_id=producer.producer_id,
                    epoch=producer.epoch,
                    base_sequence=0,
                )
            )
            partition.append(batch, read_header(batch))
        answers.append((f"{what} asked", producer))
        producer = done(what, transactions.end("tx", *producer, what == "commit", transaction_version=2))


def markers(sim: Simulation, index: int) -> list[int]:
    """Return the kinds of the end markers of a partition."""
    partition = sim.broker.topics.partition("t", index)
    kinds = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        data = partition.read_now(offset, 1 << 20).read()
        for position, header in iter_batches(data):
            offset = header.next_offset
            kinds += [decode_control(record)[0] for record in iter_records(data, position) if header.is_control]
    return kinds


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_the_power_may_fail_at_every_step_of_a_transaction(remains: Remains, part: slice) -> None:
    """Durability: a decision that was answered is carried out in all partitions; one that was not
    is carried out in all or in none.
    """
    whole = FaultyStorage()
    transact(Simulation(SMALL, storage=whole), [])
    for cut_at in range(1, len(whole.steps) + 1)[part]:
        storage, store, answers = FaultyStorage(cut_at=cut_at), MemoryStore(), Answers()
        with pytest.raises(PowerCut):
            transact(Simulation(SMALL, storage=storage, store=store), answers)
        sim = Simulation(SMALL, storage=storage.after_cut(remains, random.Random(cut_at)), store=store)
        sim.settle()
        sim.advance(2_000)
        check_after(sim, answers)


def check_after(sim: Simulation, answers: Answers) -> None:
    transactions, asked = sim.broker.coordinators.transactions, [what for what, _ in answers]
    if not answers:
        return
    last = answers[-1][1]
    state = transactions.describe("tx").state.value
    if asked[-1].endswith(" asked"):  # the producer asks again
        assert state in ("Ongoing", "CompleteCommit", "CompleteAbort")
        commit = asked[-1] == "commit asked"
        next_producer = sim.result(transactions.end("tx", *last, commit, transaction_version=2))
        assert next_producer == (last.producer_id, last.epoch + 1)
        asked.append(asked[-1].removesuffix(" asked"))
        state = transactions.describe("tx").state.value
    else:
        assert (last.producer_id, last.epoch) == transactions.describe("tx").producer
        assert state in ("Empty", "CompleteCommit", "CompleteAbort", "Ongoing")
    decisions = [kind for what, kind in (("commit", COMMIT), ("abort", ABORT)) if what in asked]
    if not sim.broker.topics.find("t"):
        assert not decisions
        return
    for index in range(2):
        kinds = markers(sim, index)  # a crash may repeat a marker
        assert [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind] == decisions
        partition = sim.broker.topics.partition("t", index)
        if state != "Ongoing":
            assert partition.last_stable_offset == partition.log_end_offset


def test_a_new_producer_ends_what_a_stop_left_open() -> None:
    sim = Simulation(SMALL)
    transactions = sim.broker.coordinators.transactions
    sim.topic("t", 2)
    producer = sim.result(transactions.init_producer_id("tx", 60_000))
    sim.result(transactions.add_partitions("tx", *producer, PARTITIONS, transaction_version=2))
    sim.stop()
    sim = sim.restarted()
    sim.settle()
    transactions = sim.broker.coordinators.transactions
    with pytest.raises(ConcurrentTransactions):
        sim.result(transactions.init_producer_id("tx", 60_000))
    assert sim.result(transactions.init_producer_id("tx", 60_000)) == (producer.producer_id, 2)
    assert markers(sim, 0) == markers(sim, 1) == [ABORT]


def test_ids_of_a_partition_with_a_damaged_record_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The record may hold a decision, or the epoch that fences a producer."""
    sim = Simulation({"transaction.state.log.num.partitions": 2})
    ids = {coordinator_partition(id, 2): id for id in ("a", "b", "c", "d")}
    for _ in range(2):
        for id in ids.values():
            sim.result(sim.broker.coordinators.transactions.init_producer_id(id, 60_000))
    sim.stop()
    file = sim.storage.open(f"{TRANSACTIONS_TOPIC}-0/{0:020}.log")
    data = bytearray(file.read_at(0, file.size))
    data[100] ^= 1
    file.truncate(0)
    file.append(data)
    file.sync()
    file.close()
    sim = sim.restarted()
    sim.settle()
    assert f"the transactions of {TRANSACTIONS_TOPIC}-0 can't be served" in caplog.text
    with pytest.raises(NotCoordinator):
        sim.result(sim.broker.coordinators.transactions.init_producer_id(ids[0], 60_000))
    assert sim.result(sim.broker.coordinators.transactions.init_producer_id(ids[1], 60_000)).epoch == 2
