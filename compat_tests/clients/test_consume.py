"""Consuming: assignment, subscription, seeks, timestamps, pausing and fetch sizes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import IDEMPOTENCE, READ_COMMITTED, Place, Record
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, collect_all, nothing_more, numbered, send_all
from compat_tests.waits import eventually

Topic = Callable[..., str]
Name = Callable[[str], str]
SECOND_MS = 1_000


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.fixture
def filled(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> Place:
    """Return a partition that contains the values of numbered(100)."""
    place = Place(topic(), 0)
    send_all(connect.producer(broker.bootstrap, linger_ms=5), place.topic, numbered(100))
    return place


def test_manual_assignment(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=3)
    producer = connect.producer(broker.bootstrap)
    for partition in range(3):
        send_all(producer, name, numbered(20, f"p{partition}"), partition=partition)
    consumer = connect.consumer(broker.bootstrap, assign=[Place(name, 0), Place(name, 2)])
    records = collect(consumer, 40)
    for partition in (0, 2):
        assert [record.value for record in records if record.place.partition == partition] == numbered(
            20, f"p{partition}"
        )
    assert consumer.assignment() == {Place(name, 0), Place(name, 2)}
    consumer.assign([Place(name, 1)])
    assert values(collect(consumer, 20)) == numbered(20, "p1")


def test_latest_reset_returns_only_later_records(connect: ClientFactory, broker: RunningBroker, filled: Place) -> None:
    consumer = connect.consumer(broker.bootstrap, assign=[filled], reset="latest")
    producer = connect.producer(broker.bootstrap)
    records: list[Record] = []
    for number in range(100):  # the client resolves the end offset lazily
        producer.send(filled.topic, b"later-%d" % number).result()
        records += consumer.poll(0.1)
        if len(records) >= 3:
            break
    first = records[0].offset - 100
    later = numbered(number + 1, "later")[first:]
    assert values(records) == later[: len(records)], "a poll may return fewer records than there are"


def test_seek_by_offset(connect: ClientFactory, broker: RunningBroker, filled: Place) -> None:
    """S4.3: seeking back repeats records, seeking forward skips them."""
    consumer = connect.consumer(broker.bootstrap, assign=[filled], fetch_wait_ms=50)
    assert values(collect(consumer, 100)) == numbered(100)
    assert consumer.position(filled) == 100
    for offset in (0, 99, 42, 57):
        consumer.seek(filled, offset)
        records = collect(consumer, 100 - offset)
        assert values(records) == numbered(100)[offset:]
        assert records[0].offset == offset
    consumer.seek_to_beginning(filled)
    assert values(collect(consumer, 100)) == numbered(100)
    consumer.seek_to_beginning(filled)
    consumer.seek_to_end(filled)
    nothing_more(consumer)


def test_offset_out_of_range_resets(connect: ClientFactory, broker: RunningBroker, filled: Place) -> None:
    consumer = connect.consumer(broker.bootstrap, assign=[filled], reset="earliest")
    collect(consumer, 100)
    consumer.seek(filled, 5_000)
    assert values(collect(consumer, 100)) == numbered(100)


def test_beginning_and_end_offsets(connect: ClientFactory, broker: RunningBroker, filled: Place, topic: Topic) -> None:
    empty = Place(topic(), 0)
    consumer = connect.consumer(broker.bootstrap)
    assert [consumer.beginning_offset(filled), consumer.end_offset(filled)] == [0, 100]
    assert [consumer.beginning_offset(empty), consumer.end_offset(empty)] == [0, 0]


@pytest.mark.parametrize("linger_ms", [0, 100], ids=["a batch each", "in one batch"])
def test_seek_by_time(linger_ms: int, connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    """S4.2"""
    place = Place(topic(), 0)
    start_ms = int(time.time() * 1000) - 86_400 * SECOND_MS
    producer = connect.producer(broker.bootstrap, linger_ms=linger_ms)
    pending = []
    for number in range(60):
        pending.append(producer.send(place.topic, b"%d" % number, timestamp_ms=start_ms + number * SECOND_MS))
        if not linger_ms:
            pending[-1].result()
    assert [each.result().offset for each in pending] == list(range(60))
    consumer = connect.consumer(broker.bootstrap, assign=[place], fetch_wait_ms=50)
    for asked_ms, offset in (
        (0, 0),
        (start_ms, 0),
        (start_ms + 1, 1),
        (start_ms + 30 * SECOND_MS, 30),
        (start_ms + 58_500, 59),
    ):
        result = consumer.offset_for_time(place, asked_ms)
        assert result is not None
        assert result.offset == offset
        assert result.timestamp_ms in (None, start_ms + offset * SECOND_MS)
        consumer.seek(place, result.offset)
        assert collect(consumer, 60 - offset)[0].value == b"%d" % offset
    assert consumer.offset_for_time(place, start_ms + 60 * SECOND_MS) is None


def test_pause_and_resume(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=2)
    held, flowing = Place(name, 0), Place(name, 1)
    producer = connect.producer(broker.bootstrap)
    consumer = connect.consumer(broker.bootstrap, assign=[held, flowing])
    for place in (held, flowing):
        send_all(producer, name, numbered(10, "first"), partition=place.partition)
    collect(consumer, 20)
    consumer.pause(held)
    for place in (held, flowing):
        send_all(producer, name, numbered(10, "second"), partition=place.partition)
    records = collect(consumer, 10)
    assert {record.place for record in records} == {flowing}
    nothing_more(consumer)
    consumer.resume(held)
    records = collect(consumer, 10)
    assert values(records) == numbered(10, "second")
    assert {record.place for record in records} == {held}


def test_fetch_waits_for_new_records(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    """S4.3: fetch.max.wait.ms."""
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap)
    producer.send(place.topic, b"warm").result()
    consumer = connect.consumer(broker.bootstrap, assign=[place], fetch_wait_ms=20_000)
    collect(consumer, 1)
    for number in range(3):
        assert consumer.poll(0.3) == []
        started = time.monotonic()
        producer.send(place.topic, b"%d" % number).result()
        assert values(collect(consumer, 1)) == [b"%d" % number]
        assert time.monotonic() - started < 12, "the record came only when the fetch had waited to its end"


def test_fetch_waits_for_min_bytes(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    """S4.3: fetch.min.bytes."""
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap)
    consumer = connect.consumer(broker.bootstrap, assign=[place], fetch_bytes_min=50_000, fetch_wait_ms=20_000)
    assert consumer.poll(0.3) == []
    producer.send(place.topic, bytes(100)).result()
    assert consumer.poll(0.3) == []
    started = time.monotonic()
    producer.send(place.topic, bytes(60_000)).result()
    assert len(collect(consumer, 2)) == 2
    assert time.monotonic() - started < 12, "the bytes were there and the fetch waited on"


def test_partition_limit_smaller_than_batch(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    """S4.3: max.partition.fetch.bytes."""
    place = Place(topic(), 0)
    source = random.Random(3)
    sent = [source.randbytes(10_000) for _ in range(60)]
    producer = connect.producer(broker.bootstrap, linger_ms=50, batch_bytes=100_000)
    pending = [producer.send(place.topic, value) for value in sent]
    producer.flush()
    assert [each.result().offset for each in pending] == list(range(60))
    records = collect(connect.consumer(broker.bootstrap, assign=[place], partition_bytes_max=2_000), 60)
    assert values(records) == sent


@pytest.mark.long
def test_many_small_records(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=4)
    # without idempotence records may change their order, or come twice, where they are sent again
    idempotent = IDEMPOTENCE in connect.client.features
    producer = connect.producer(broker.bootstrap, linger_ms=20, codec="lz4", idempotent=idempotent)
    pending = [producer.send(name, b"%d" % number, partition=number % 4) for number in range(20_000)]
    producer.flush()
    pending[-1].result()
    consumer = connect.consumer(
        broker.bootstrap,
        assign=[Place(name, partition) for partition in range(4)],
        partition_bytes_max=8 * 2**20,
        poll_records_max=5_000,
    )
    records = collect(consumer, 20_000)
    for partition in range(4):
        assert [int(record.value or b"") for record in records if record.place.partition == partition] == list(
            range(partition, 20_000, 4)
        )


def test_many_topics(connect: ClientFactory, broker: RunningBroker, name: Name) -> None:
    stem = name("many")
    topics = [f"{stem}.{number}" for number in range(30)]
    for each in topics:
        protocol_client.create_topic(broker.bootstrap, each, 2)
    producer = connect.producer(broker.bootstrap)
    pending = [producer.send(each, each.encode(), partition=partition) for each in topics for partition in (0, 1)]
    producer.flush()
    for each_pending in pending:
        each_pending.result()
    consumer = connect.consumer(broker.bootstrap, *topics, group=name("group"), session_ms=broker.session_ms)
    collect_all(consumer, {(Place(each, partition), each.encode()) for each in topics for partition in (0, 1)})


def test_subscription_by_pattern(connect: ClientFactory, broker: RunningBroker, name: Name) -> None:
    stem = name("pattern")
    for each in ("one", "two"):
        protocol_client.create_topic(broker.bootstrap, f"{stem}.{each}")
    protocol_client.create_topic(broker.bootstrap, f"other.{stem}.three")
    consumer = connect.consumer(
        broker.bootstrap, group=name("group"), session_ms=broker.session_ms, metadata_age_ms=500
    )
    consumer.subscribe_pattern(f"^{stem}.*")
    producer = connect.producer(broker.bootstrap)
    for each in (f"{stem}.one", f"{stem}.two", f"other.{stem}.three"):
        producer.send(each, each.encode()).result()
    assert set(values(collect(consumer, 2))) == {f"{stem}.one".encode(), f"{stem}.two".encode()}
    consumer.commit()
    protocol_client.create_topic(broker.bootstrap, f"{stem}.later")
    producer.send(f"{stem}.later", b"later").result()
    assert values(collect(consumer, 1)) == [b"later"]


def test_partitions_of_topic(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=7)
    consumer = connect.consumer(broker.bootstrap, assign=[Place(name, 0)])
    eventually(
        lambda: consumer.poll(0.05) == [] and consumer.partitions(name) == set(range(7)),
        "the consumer knows seven partitions",
    )


def test_read_committed_without_transactions(
    connect: ClientFactory, broker: RunningBroker, filled: Place, needs: Callable[[str], None]
) -> None:
    needs(READ_COMMITTED)
    consumer = connect.consumer(broker.bootstrap, assign=[filled], read_committed=True)
    assert values(collect(consumer, 100)) == numbered(100)
    connect.producer(broker.bootstrap).send(filled.topic, b"later").result()
    assert values(collect(consumer, 1)) == [b"later"]


def test_consumers_without_group_receive_all_records(
    connect: ClientFactory, broker: RunningBroker, filled: Place
) -> None:
    for _ in range(3):
        assert values(collect(connect.consumer(broker.bootstrap, assign=[filled]), 100)) == numbered(100)
