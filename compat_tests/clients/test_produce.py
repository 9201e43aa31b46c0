"""Producing: codecs, acks, record fields, record sizes and rejected records."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import (
    ACKS_NONE,
    IDEMPOTENCE,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NULL_HEADERS,
    BrokerError,
    Headers,
    Place,
    RecordMetadata,
)
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all

Topic = Callable[..., str]
SECOND_MS = 1_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codec(codec: str, connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    values = [f"{number} ".encode() * 40 for number in range(200)]
    producer = connect.producer(broker.bootstrap, codec=codec, linger_ms=50, batch_bytes=64_000)
    send_all(producer, name, values)
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 200)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(200))
    # Some clients silently disable compression if the broker does not advertise certain API
    # versions.
    assert protocol_client.codecs_of(broker.bootstrap, Place(name, 0)) == {codec}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(
    acks: int, connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Callable[[str], None]
) -> None:
    if not acks:
        needs(ACKS_NONE)
    name = topic()
    producer = connect.producer(broker.bootstrap, acks=acks)
    sent = [pending.result() for pending in send_all(producer, name, numbered(50))]
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 50)
    assert [record.value for record in records] == numbered(50)
    if acks:
        assert sent == [RecordMetadata(0, offset) for offset in range(50)]


def test_records_sent_one_at_a_time_get_rising_offsets(
    connect: ClientFactory, broker: RunningBroker, topic: Topic
) -> None:
    name = topic()
    producer = connect.producer(broker.bootstrap)
    for number in range(30):
        assert producer.send(name, b"%d" % number).result() == RecordMetadata(0, number)


def test_idempotent_producer(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Callable[[str], None]
) -> None:
    needs(IDEMPOTENCE)
    name = topic(partitions=2)
    producer = connect.producer(broker.bootstrap, idempotent=True)
    for partition in (0, 1):
        send_all(producer, name, numbered(300), partition=partition)
        records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, partition)]), 300)
        assert [record.value for record in records] == numbered(300)


def test_keys_values_headers_and_timestamps(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    now_ms = int(time.time() * 1000)
    headers: Headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("", b""), ("größe", "größe".encode()))
    sent: list[tuple[bytes | None, bytes | None, Headers, int]] = [
        (b"key", b"value", headers, now_ms),
        (None, b"no key", (), now_ms - 5 * SECOND_MS),
        (b"no value", None, (), now_ms - 86_400 * SECOND_MS),
        (b"", b"", (), now_ms + 1),
        (b"old", b"", (("alone", b"1"),), 1),
        (bytes(range(256)), bytes(reversed(range(256))), (), now_ms),
    ]
    producer = connect.producer(broker.bootstrap, linger_ms=50)
    pending = [
        producer.send(name, value, key=key, headers=extra, timestamp_ms=when) for key, value, extra, when in sent
    ]
    producer.flush()
    assert [each.result().offset for each in pending] == list(range(len(sent)))
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), len(sent))
    assert [(record.key, record.value, record.headers, record.timestamp_ms) for record in records] == sent


def test_null_header_values(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Callable[[str], None]
) -> None:
    needs(NULL_HEADERS)
    name = topic()
    connect.producer(broker.bootstrap).send(name, b"value", headers=(("none", None), ("empty", b""))).result()
    (record,) = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 1)
    assert record.headers == (("none", None), ("empty", b""))


def test_client_sets_missing_timestamp(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    before_ms = int(time.time() * 1000)
    connect.producer(broker.bootstrap).send(name, b"value").result()
    (record,) = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 1)
    assert before_ms <= record.timestamp_ms <= int(time.time() * 1000)


def test_log_append_time(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(**{"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    producer = connect.producer(broker.bootstrap, linger_ms=20, codec="gzip")
    pending = [producer.send(name, b"%d" % number, timestamp_ms=1) for number in range(20)]
    for each in pending:
        each.result()
    after_ms = int(time.time() * 1000)
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 20)
    assert all(before_ms <= record.timestamp_ms <= after_ms for record in records)


def test_timestamp_far_in_future_is_rejected(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    producer = connect.producer(broker.bootstrap)
    with pytest.raises(BrokerError) as refusal:
        producer.send(name, b"value", timestamp_ms=int(time.time() * 1000) + 86_400 * SECOND_MS).result()
    assert refusal.value.code == INVALID_TIMESTAMP
    assert producer.send(name, b"next").result() == RecordMetadata(0, 0)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_of_one_megabyte(codec: str, connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    source = random.Random(7)
    values = [source.randbytes(1_000_000) for _ in range(5)]
    producer = connect.producer(broker.bootstrap, codec=codec)
    for number, value in enumerate(values):
        assert producer.send(name, value).result() == RecordMetadata(0, number)
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 5)
    assert [record.value == value for record, value in zip(records, values, strict=True)] == [True] * 5


def test_record_above_size_limit_is_rejected(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(**{"max.message.bytes": "20000"})
    producer = connect.producer(broker.bootstrap)
    with pytest.raises(BrokerError) as refusal:
        producer.send(name, random.Random(7).randbytes(30_000)).result()
    assert refusal.value.code == MESSAGE_TOO_LARGE
    assert producer.send(name, b"small").result() == RecordMetadata(0, 0)


def test_order_within_partition(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=3)
    # without idempotence records may change their order where they are sent again
    idempotent = IDEMPOTENCE in connect.client.features
    producer = connect.producer(broker.bootstrap, linger_ms=5, idempotent=idempotent)
    pending = [producer.send(name, b"%d" % number, partition=number % 3) for number in range(3_000)]
    producer.flush()
    for each in pending:
        each.result()
    consumer = connect.consumer(broker.bootstrap, assign=[Place(name, partition) for partition in range(3)])
    records = collect(consumer, 3_000)
    for partition in range(3):
        numbers = [int(record.value or b"") for record in records if record.place.partition == partition]
        assert numbers == list(range(partition, 3_000, 3))


def test_equal_keys_share_partition(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic(partitions=5)
    producer = connect.producer(broker.bootstrap)
    pending = [(number % 20, producer.send(name, b"value", key=b"key-%d" % (number % 20))) for number in range(100)]
    places = {(key, each.result().partition) for key, each in pending}
    assert len(places) == 20
    assert len({partition for _key, partition in places}) > 1


def test_topic_is_auto_created(connect: ClientFactory, broker: RunningBroker, name: Callable[[str], str]) -> None:
    chosen = name("on-demand")
    producer = connect.producer(broker.bootstrap)
    assert producer.send(chosen, b"first").result() == RecordMetadata(0, 0)
    consumer = connect.consumer(broker.bootstrap, assign=[Place(chosen, 0)])
    assert collect(consumer, 1)[0].value == b"first"
    nothing_more(consumer)


def test_two_producers_on_one_partition(connect: ClientFactory, broker: RunningBroker, topic: Topic) -> None:
    name = topic()
    producers = [connect.producer(broker.bootstrap, linger_ms=number) for number in range(2)]
    pending = [producers[number % 2].send(name, b"%d" % number) for number in range(400)]
    for producer in producers:
        producer.flush()
    offsets = sorted(each.result().offset for each in pending)
    assert offsets == list(range(400))
    records = collect(connect.consumer(broker.bootstrap, assign=[Place(name, 0)]), 400)
    for parity in (0, 1):
        mine = [int(record.value or b"") for record in records if int(record.value or b"") % 2 == parity]
        assert mine == list(range(parity, 400, 2))
