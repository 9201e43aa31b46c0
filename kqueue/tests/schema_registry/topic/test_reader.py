from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.schema_registry.topic.reader import SchemaTopicReader
from kqueue.testing import faults
from kqueue.tests.waits import eventually

Applied = list[tuple[int, bytes | None, bytes | None, int]]
Read = Callable[..., tuple[SchemaTopicReader, Applied]]


@pytest.fixture
def read(options: ClientOptions, topic: str) -> Iterator[Read]:
    """Return a reader, and what it has passed on."""
    readers = []

    def make(options: ClientOptions = options) -> tuple[SchemaTopicReader, Applied]:
        applied: Applied = []
        reader = SchemaTopicReader(options, topic, lambda *record: applied.append(record))
        readers.append(reader)
        return reader, applied

    yield make
    for reader in readers:
        reader.close()


def test_what_is_there_is_read_before_the_load_returns(broker: Broker, topic: str, read: Read) -> None:
    for number in range(5):
        broker.topics[topic].produce(b"value", key=b"key%d" % number)
    broker.topics[topic].produce(None, key=b"key0")
    reader, applied = read()
    reader.load()
    assert [(offset, key, value) for offset, key, value, _ in applied] == [
        *((number, b"key%d" % number, b"value") for number in range(5)),
        (5, b"key0", None),
    ]
    assert (reader.position, reader.is_connected) == (6, True)


def test_an_empty_topic_is_loaded_at_once(read: Read) -> None:
    reader, applied = read()
    reader.load()
    assert (applied, reader.position) == ([], 0)


def test_what_is_appended_later_is_passed_on_in_the_thread(broker: Broker, topic: str, read: Read) -> None:
    reader, applied = read()
    reader.load()
    reader.start()
    broker.topics[topic].produce(b"value", key=b"key", timestamp=1_700_000_000_000)
    eventually(lambda: applied == [(0, b"key", b"value", 1_700_000_000_000)], applied)


def test_markers_of_transactions_are_no_records(broker: Broker, options: ClientOptions, topic: str, read: Read) -> None:
    partition = TopicPartition(topic, 0)
    with Client(options) as client:
        producer = client.transactions.init("other", 10_000)
        client.transactions.add_partitions(producer, [partition])
        builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=0, transactional=True)
        builder.append(1, b"key", b"value")
        client.produce({partition: builder.build()}, transactional_id="other")
        client.transactions.end(producer, committed=True)
    reader, applied = read()
    eventually(lambda: broker.topics[topic].end_offsets == {0: 2}, "the marker")
    reader.load()
    assert ([key for _, key, _, _ in applied], reader.position) == ([b"key"], 2)


def test_a_broker_that_is_gone_is_connected_to_again(
    broker: Broker, topic: str, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    reader, applied = read()
    reader.load()
    with caplog.at_level(logging.INFO, "kqueue.schema_registry"):
        with faults(broker) as faulty:
            faulty.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None, topic=topic)
            reader.start()
            eventually(lambda: not reader.is_connected, "the error")
        assert "what was read is served" in caplog.text
        broker.topics[topic].produce(b"value", key=b"key")
        eventually(lambda: applied, "the record")
        eventually(lambda: reader.is_connected, "the next fetch")
    assert caplog.text.count("is read again") == 1


def test_a_topic_that_is_deleted_ends_the_reading_with_a_sentence(broker: Broker, topic: str, read: Read) -> None:
    for _ in range(3):
        broker.topics[topic].produce(b"value", key=b"key")
    reader, applied = read()
    reader.load()
    broker.topics[topic].delete()
    broker.create_topic(topic, 1, cleanup_policy="compact")
    reader.start()
    eventually(lambda: reader.failure, "the end")
    assert "was deleted or truncated while it was followed" in str(reader.failure)
    assert len(applied) == 3


def test_a_damaged_batch_is_refused(options: ClientOptions, topic: str, read: Read) -> None:
    builder = BatchBuilder()
    builder.append(1, b"key", b"value")
    batch = memoryview(builder.build())
    batch[-2] ^= 1
    reader, applied = read()
    with pytest.raises(Exception, match="the checksum"):
        reader._pass_on(batch.toreadonly())
    assert not applied


def test_a_record_that_can_not_be_used_ends_the_reading_with_a_sentence(
    broker: Broker, options: ClientOptions, topic: str
) -> None:
    def apply(*record: object) -> None:
        raise ZeroDivisionError("a defect")

    reader = SchemaTopicReader(options, topic, apply)
    reader.start()
    broker.topics[topic].produce(b"value", key=b"key")
    failure = eventually(lambda: reader.failure, "the end")
    assert isinstance(failure, StoreUnavailable)
    assert "the record at offset 0 can't be used: ZeroDivisionError: a defect" in str(failure)
    reader.close()
