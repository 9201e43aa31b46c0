from __future__ import annotations

from kqueue.base.errors import KqueueError
from kqueue.broker.internal_topic_log import InternalTopicLog
from kqueue.broker.topics import TRANSACTIONS_TOPIC
from kqueue.broker.transaction_topic import TransactionTopicLog
from kqueue.testing.simulation import Simulation


def log_of(sim: Simulation) -> TransactionTopicLog:
    broker = sim.broker
    return TransactionTopicLog(broker.config, broker.topics, broker.purgatory, broker.clock)


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
    assert [partition.index for partition in log.used_partitions(sim.broker._has_or_had)] == [2]
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
