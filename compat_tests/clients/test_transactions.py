"""Transactions: what read_committed consumers see, fencing, offsets, timeouts and restarts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import (
    INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED,
    RECONNECTING_TRANSACTIONS,
    TRANSACTIONS,
    BrokerError,
    Consumer,
    Place,
)
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all
from compat_tests.waits import eventually

pytestmark = pytest.mark.one_client

Topic = Callable[..., str]
Name = Callable[[str], str]
END_TXN, TXN_OFFSET_COMMIT = 26, 28
FENCED = {INVALID_PRODUCER_EPOCH, PRODUCER_FENCED}


@pytest.fixture(autouse=True)
def _transactions(needs: Callable[[str], None], serves: Callable[[int], None]) -> None:
    needs(TRANSACTIONS)
    serves(END_TXN)
    serves(TXN_OFFSET_COMMIT)


@pytest.fixture
def _reconnecting(needs: Callable[[str], None]) -> None:
    needs(RECONNECTING_TRANSACTIONS)


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    return [record.value for record in collect(consumer, count)]


def committed_values(connect: ClientFactory, bootstrap: str, places: list[Place], count: int) -> list[bytes | None]:
    """Return all that read_committed shows of these partitions; there must be `count` records."""
    consumer = connect.consumer(bootstrap, assign=places, read_committed=True)
    committed = values(consumer, count)
    nothing_more(consumer)
    consumer.close()
    return committed


def test_records_are_shown_after_the_commit(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    committed = connect.consumer(broker.bootstrap, assign=[place], read_committed=True)
    uncommitted = connect.consumer(broker.bootstrap, assign=[place])
    for number in range(3):
        sent = numbered(5, f"transaction-{number}")
        producer.begin_transaction()
        send_all(producer, place.topic, sent)
        assert values(uncommitted, 5) == sent
        nothing_more(committed)
        producer.commit_transaction()
        assert values(committed, 5) == sent


def test_aborted_records_are_not_shown(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    for number in range(6):
        producer.begin_transaction()
        send_all(producer, place.topic, numbered(5, f"transaction-{number}"))
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    expected = [value for number in (1, 3, 5) for value in numbered(5, f"transaction-{number}")]
    assert committed_values(connect, broker.bootstrap, [place], 15) == expected
    assert len(collect(connect.consumer(broker.bootstrap, assign=[place]), 30)) == 30


@pytest.mark.long
def test_transactions_without_records(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    for number in range(4):
        producer.begin_transaction()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    send_all(producer, place.topic, [b"value"])
    producer.commit_transaction()
    assert committed_values(connect, broker.bootstrap, [place], 1) == [b"value"]


@pytest.mark.long
def test_an_open_transaction_holds_back_later_records(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place = Place(topic(), 0)
    slow, quick = (connect.producer(broker.bootstrap, transactional_id=name("txn")) for _ in range(2))
    plain = connect.producer(broker.bootstrap)
    committed = connect.consumer(broker.bootstrap, assign=[place], read_committed=True)
    send_all(plain, place.topic, [b"before"])
    slow.begin_transaction()
    send_all(slow, place.topic, [b"aborted"])
    quick.begin_transaction()
    send_all(quick, place.topic, [b"committed"])
    quick.commit_transaction()
    send_all(plain, place.topic, [b"after"])
    assert values(committed, 1) == [b"before"]
    nothing_more(committed)
    slow.abort_transaction()
    assert values(committed, 2) == [b"committed", b"after"]


def test_a_second_producer_fences_the_first(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place, transactional_id = Place(topic(), 0), name("txn")
    first = connect.producer(broker.bootstrap, transactional_id=transactional_id)
    first.begin_transaction()
    send_all(first, place.topic, [b"left open"])
    second = connect.producer(broker.bootstrap, transactional_id=transactional_id)
    second.begin_transaction()
    send_all(second, place.topic, [b"second"])
    with pytest.raises(BrokerError) as refusal:
        first.commit_transaction()
    assert refusal.value.code in FENCED, refusal.value
    second.commit_transaction()
    assert committed_values(connect, broker.bootstrap, [place], 1) == [b"second"]


@pytest.mark.long
def test_a_fenced_producer_writes_nothing(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place, transactional_id = Place(topic(), 0), name("txn")
    first = connect.producer(broker.bootstrap, transactional_id=transactional_id)
    first.begin_transaction()
    send_all(first, place.topic, [b"first"])
    first.commit_transaction()
    second = connect.producer(broker.bootstrap, transactional_id=transactional_id)
    first.begin_transaction()
    with pytest.raises(BrokerError) as refusal:  # noqa: PT012 some clients say so at the send, some at the end
        first.send(place.topic, b"late").result()
        first.commit_transaction()
    assert refusal.value.code in FENCED, refusal.value
    second.begin_transaction()
    send_all(second, place.topic, [b"second"])
    second.commit_transaction()
    assert committed_values(connect, broker.bootstrap, [place], 2) == [b"first", b"second"]
    assert values(connect.consumer(broker.bootstrap, assign=[place]), 2) == [b"first", b"second"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_offsets_are_committed_with_the_transaction(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name, commit: bool
) -> None:
    source, target, group = topic(), topic(), name("group")
    send_all(connect.producer(broker.bootstrap), source, numbered(10))
    consumer = connect.consumer(broker.bootstrap, source, group=group, session_ms=broker.session_ms)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    records = collect(consumer, 10)
    producer.begin_transaction()
    send_all(producer, target, [b"seen " + (record.value or b"") for record in records[:7]])
    producer.send_offsets({Place(source, 0): 7}, consumer)
    if commit:
        producer.commit_transaction()
        # an answer to EndTxn comes before the markers are written
        eventually(lambda: consumer.committed(Place(source, 0)) == 7, "the offset is committed")
        expected = [b"seen " + value for value in numbered(7)]
    else:
        producer.abort_transaction()
        expected = []
    consumer.close()
    follower = connect.consumer(broker.bootstrap, source, group=group, session_ms=broker.session_ms)
    assert values(follower, 3 if commit else 10) == numbered(10)[7 if commit else 0 :]
    assert committed_values(connect, broker.bootstrap, [Place(target, 0)], len(expected)) == expected


def test_consume_transform_produce(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    """Every second round is aborted and repeated; each record is transformed exactly once."""
    source, target, group = topic(partitions=2), topic(), name("group")
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    plain = connect.producer(broker.bootstrap)
    for partition in range(2):
        send_all(plain, source, numbered(20, f"p{partition}"), partition=partition)
    for number in range(8):
        consumer = connect.consumer(
            broker.bootstrap, source, group=group, session_ms=broker.session_ms, poll_records_max=10
        )
        records: list = []
        eventually(lambda: records.extend(consumer.poll(1)) or records, "records")  # noqa: B023
        records = records[:10]
        producer.begin_transaction()
        send_all(producer, target, [record.value or b"" for record in records])
        offsets = {record.place: record.offset + 1 for record in records}
        producer.send_offsets(offsets, consumer)
        if number % 2:
            producer.commit_transaction()
            eventually(
                lambda: all(consumer.committed(place) == offset for place, offset in offsets.items()),  # noqa: B023
                "the offsets are committed",
            )
        else:
            producer.abort_transaction()
        consumer.close()
    outputs = committed_values(connect, broker.bootstrap, [Place(target, 0)], 40)
    assert sorted(value or b"" for value in outputs) == sorted(numbered(20, "p0") + numbered(20, "p1"))


@pytest.mark.long
def test_transaction_spans_many_partitions(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    topics = [topic(partitions=25) for _ in range(4)]
    places = [Place(one, partition) for one in topics for partition in range(25)]
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"), linger_ms=5)
    for number in range(3):
        producer.begin_transaction()
        pending = [
            producer.send(place.topic, value, partition=place.partition)
            for value in numbered(10, f"transaction-{number}")
            for place in places
        ]
        producer.flush()
        for each in pending:
            each.result()
        if number == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    consumer = connect.consumer(broker.bootstrap, assign=places, read_committed=True)
    records = collect(consumer, 2 * 10 * len(places))
    expected = numbered(10, "transaction-0") + numbered(10, "transaction-2")
    for place in places:
        assert [record.value for record in records if record.place == place] == expected


@pytest.mark.long
def test_many_transactions_of_one_producer(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    for value in numbered(60):
        producer.begin_transaction()
        producer.send(place.topic, value).result()
        producer.commit_transaction()
    assert committed_values(connect, broker.bootstrap, [place], 60) == numbered(60)


@pytest.mark.long
def test_a_transaction_that_takes_too_long_is_aborted(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place, transactional_id = Place(topic(), 0), name("txn")
    producer = connect.producer(broker.bootstrap, transactional_id=transactional_id, transaction_timeout_ms=1_000)
    committed = connect.consumer(broker.bootstrap, assign=[place], read_committed=True)
    producer.begin_transaction()
    send_all(producer, place.topic, [b"too long"])
    send_all(connect.producer(broker.bootstrap), place.topic, [b"behind it"])
    assert values(committed, 1) == [b"behind it"]
    with pytest.raises(BrokerError):
        producer.commit_transaction()
    successor = connect.producer(broker.bootstrap, transactional_id=transactional_id)
    successor.begin_transaction()
    send_all(successor, place.topic, [b"successor"])
    successor.commit_transaction()
    assert values(committed, 1) == [b"successor"]


@pytest.mark.long
@pytest.mark.usefixtures("_reconnecting")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_continues_after_restarts(
    own_broker: RunningBroker, connect: ClientFactory, name: Name, commit: bool
) -> None:
    place = Place(name("topic"), 0)
    protocol_client.create_topic(own_broker.bootstrap, place.topic)
    producer = connect.producer(own_broker.bootstrap, transactional_id=name("txn"))
    producer.begin_transaction()
    send_all(producer, place.topic, numbered(5, "before"))
    own_broker.restart()
    send_all(producer, place.topic, numbered(5, "after"))
    committed = connect.consumer(own_broker.bootstrap, assign=[place], read_committed=True)
    nothing_more(committed)
    own_broker.restart()
    if commit:
        producer.commit_transaction()
        assert values(committed, 10) == numbered(5, "before") + numbered(5, "after")
    else:
        producer.abort_transaction()
    producer.begin_transaction()
    send_all(producer, place.topic, [b"next"])
    producer.commit_transaction()
    assert values(committed, 1) == [b"next"]
    own_broker.restart()
    expected = [*numbered(5, "before"), *numbered(5, "after"), b"next"] if commit else [b"next"]
    assert committed_values(connect, own_broker.bootstrap, [place], len(expected)) == expected


@pytest.mark.long
@pytest.mark.usefixtures("_reconnecting")
def test_a_transaction_left_open_is_aborted_after_a_restart(
    own_broker: RunningBroker, connect: ClientFactory, name: Name
) -> None:
    """The broker restarts, and the producer's successor takes the transactional id over."""
    place, transactional_id = Place(name("topic"), 0), name("txn")
    protocol_client.create_topic(own_broker.bootstrap, place.topic)
    producer = connect.producer(own_broker.bootstrap, transactional_id=transactional_id)
    producer.begin_transaction()
    send_all(producer, place.topic, [b"left open"])
    own_broker.restart()
    successor = connect.producer(own_broker.bootstrap, transactional_id=transactional_id)
    successor.begin_transaction()
    send_all(successor, place.topic, [b"successor"])
    successor.commit_transaction()
    assert committed_values(connect, own_broker.bootstrap, [place], 1) == [b"successor"]
    with pytest.raises(BrokerError) as refusal:
        producer.commit_transaction()
    assert refusal.value.code in FENCED, refusal.value


@pytest.mark.long
@pytest.mark.usefixtures("_reconnecting")
def test_offsets_of_an_open_transaction_outlive_a_restart(
    own_broker: RunningBroker, connect: ClientFactory, name: Name
) -> None:
    source, group = name("topic"), name("group")
    protocol_client.create_topic(own_broker.bootstrap, source)
    send_all(connect.producer(own_broker.bootstrap), source, numbered(10))
    consumer = connect.consumer(own_broker.bootstrap, source, group=group)
    collect(consumer, 10)
    producer = connect.producer(own_broker.bootstrap, transactional_id=name("txn"))
    producer.begin_transaction()
    producer.send_offsets({Place(source, 0): 4}, consumer)
    own_broker.restart()
    producer.commit_transaction()
    eventually(lambda: consumer.committed(Place(source, 0)) == 4, "the offset is committed")


def test_the_answers_come_soon(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    """A transaction of one record takes no back-off of a client: nothing waits for a retry."""
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, transactional_id=name("txn"))
    took = []
    for value in numbered(15):
        began = time.monotonic()
        producer.begin_transaction()
        producer.send(place.topic, value).result()
        producer.commit_transaction()
        took.append(time.monotonic() - began)
    assert sorted(took)[len(took) // 2] < 1
