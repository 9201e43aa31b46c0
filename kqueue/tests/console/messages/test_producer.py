from __future__ import annotations

import pytest

from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.messages.message import Message
from kqueue.console.messages.message_page import read_message
from kqueue.console.messages.producer import BATCH_BYTES, TopicProducer
from kqueue.console.messages.record_form import NewRecord
from kqueue.records.partitioners import make_partitioner


def test_a_record_is_appended_as_it_is(client: Client) -> None:
    client.create_topics([NewTopic("made", 3)])
    producer = TopicProducer(client, "made", [0, 1, 2])
    producer.add(NewRecord(b"k", None, (("a", b"1"), ("b", None)), 1, 5))
    assert producer.flush() == [(1, 0)]
    message = read_message(client, "made", 1, 0)
    assert isinstance(message, Message)
    assert (message.key.data, message.value.data, message.timestamp_ms) == (b"k", None, 5)
    assert [(name, value.data) for name, value in message.headers] == [("a", b"1"), ("b", None)]


def test_a_key_chooses_the_partition_as_in_kafkas_clients(client: Client) -> None:
    client.create_topics([NewTopic("keyed", 5)])
    producer = TopicProducer(client, "keyed", range(5))
    producer.add(NewRecord(b"customer-7", b"x"))
    [(partition, _)] = producer.flush()
    assert partition == make_partitioner("murmur2").partition(b"customer-7", 5)


def test_the_time_is_now_if_none_is_given(client: Client) -> None:
    client.create_topics([NewTopic("timed", 1)])
    producer = TopicProducer(client, "timed", [0], now_ms=lambda: 1_234)
    producer.add(NewRecord(None, b"x"))
    producer.flush()
    message = read_message(client, "timed", 0, 0)
    assert isinstance(message, Message)
    assert message.timestamp_ms == 1_234


def test_full_batches_are_appended_at_once(client: Client) -> None:
    client.create_topics([NewTopic("full", 1)])
    producer = TopicProducer(client, "full", [0])
    producer.add(NewRecord(None, b"x" * BATCH_BYTES))
    assert producer.appended == 1
    assert client.offsets({TopicPartition("full", 0): -1})[TopicPartition("full", 0)].offset == 1
    assert producer.flush() == []


def test_a_partition_that_is_not_there_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="has the partitions 0 to 1, not 2"):
        TopicProducer(client, "t", [0, 1]).add(NewRecord(None, b"x", partition=2))
