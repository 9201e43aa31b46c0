"""Brokers of one process whose data go back while clients stay open: the clients work, or get an
error. Data go back by a reset to a snapshot, in a second broker of it, by a stop of a broker in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

import kqueue
from kqueue.client import Client

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One record in the topic orders, and one of the transactional id till. Tests must not change
    it.
    """
    folder = tmp_path_factory.mktemp("ids") / "snapshot"
    with kqueue.Broker(transaction_state_log_num_partitions=1) as broker:
        broker.create_topic("orders")
        with transactional(broker) as producer:
            transact(producer, b"seed")
        broker.snapshot(folder)
    return folder


def idempotent(broker: kqueue.Broker) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True, retry_backoff_ms=10)


def transactional(broker: kqueue.Broker) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="till", retry_backoff_ms=10)
    producer.init_transactions()
    return producer


def transact(producer: KafkaProducer, value: bytes) -> None:
    producer.begin_transaction()
    producer.send("orders", value).get(60)
    producer.commit_transaction()


def values(broker: kqueue.Broker) -> list[bytes]:
    return [bytes(record.value) for record in broker.topics["orders"].records()]


def check_all_are_stored(broker: kqueue.Broker, producers: list[KafkaProducer]) -> None:
    """Send with each producer in turn; what is acknowledged must be stored, once."""
    before, sent = values(broker), []
    for number in range(6):
        value = b"%d" % number
        producers[number % len(producers)].send("orders", value).get(60)
        sent.append(value)
    assert values(broker) == before + sent


@pytest.fixture
def broker(snapshot: Path) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(snapshot=snapshot) as broker:
        yield broker


def test_after_a_reset_to_the_snapshot_a_new_producer_is_another_than_the_open_one(broker: kqueue.Broker) -> None:
    with idempotent(broker) as open_one:
        open_one.send("orders", b"before").get(60)
        for _ in range(2):
            broker.reset()
            with idempotent(broker) as new_one:
                check_all_are_stored(broker, [new_one, open_one])


def test_after_a_stop_in_memory_a_new_producer_is_another_than_the_open_one() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        port = broker.port
        open_one = idempotent(broker)
        open_one.send("orders", b"before").get(60)
    with kqueue.Broker(port=port, auto_create_topics_enable=False) as broker, idempotent(broker) as new_one:
        broker.create_topic("orders")
        check_all_are_stored(broker, [new_one, open_one])
        open_one.close()


def test_a_producer_that_goes_to_another_broker_of_the_snapshot_is_another_than_those_there(snapshot: Path) -> None:
    with kqueue.Broker(snapshot=snapshot) as first:
        port = first.port
        open_one = idempotent(first)
        open_one.send("orders", b"before").get(60)
    with kqueue.Broker(snapshot=snapshot, port=port) as second, idempotent(second) as new_one:
        check_all_are_stored(second, [new_one, open_one])
        open_one.close()


@pytest.mark.parametrize("transactions", [0, 1, 3])
def test_a_transactional_producer_open_over_a_reset_is_fenced_and_its_successor_loses_nothing(
    broker: kqueue.Broker, transactions: int
) -> None:
    open_one = transactional(broker)
    for number in range(transactions):
        transact(open_one, b"%d" % number)
    broker.reset()
    new_one = transactional(broker)
    transact(new_one, b"a")
    with pytest.raises(KafkaError):
        transact(open_one, b"lost")
    transact(new_one, b"b")
    assert values(broker) == [b"seed", b"a", b"b"]
    for producer in (open_one, new_one):
        producer.close(0)


def test_a_transaction_that_was_open_at_the_reset_can_not_be_committed(broker: kqueue.Broker) -> None:
    producer = transactional(broker)
    producer.begin_transaction()
    producer.send("orders", b"lost").get(60)
    broker.reset()
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    producer.close(0)
    assert values(broker) == [b"seed"]


def test_each_copy_of_a_snapshot_has_its_own_leader_epoch(broker: kqueue.Broker, snapshot: Path) -> None:
    def leader_epoch(of: kqueue.Broker) -> int:
        with Client(of.bootstrap) as client:
            return client.metadata(["orders"]).topics["orders"].partitions[0].leader_epoch

    epochs = [leader_epoch(broker)]
    broker.restart()
    assert leader_epoch(broker) == epochs[0], "its data continue"
    broker.reset()
    epochs.append(leader_epoch(broker))
    with kqueue.Broker(snapshot=snapshot) as other:
        epochs.append(leader_epoch(other))
    assert len(set(epochs)) == 3
    assert values(broker) == [b"seed"]


def test_a_consumer_open_over_a_reset_to_the_snapshot_reads_on(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=10)
    consumer.assign([ORDERS])
    assert next(consumer).value == b"seed"
    broker.reset()
    broker.topics["orders"].produce(b"more")
    assert next(consumer).value == b"more"
    consumer.close()
