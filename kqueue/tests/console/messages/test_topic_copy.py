from __future__ import annotations

import pytest

from kqueue import Broker
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.client.errors import BrokerRefused
from kqueue.console.messages import topic_copy
from kqueue.console.messages.message import Message
from kqueue.console.messages.message_page import read_message
from kqueue.console.messages.topic_copy import CopyRequest, copy_messages
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.messages.support import batch


def end(client: Client, topic: str, partition: int = 0) -> int | None:
    return client.offsets({TopicPartition(topic, partition): -1})[TopicPartition(topic, partition)].offset


def test_messages_keep_keys_values_headers_and_times(client: Client) -> None:
    client.create_topics([NewTopic("from", 2), NewTopic("to", 2)])
    record = Record(0, 1_000, b"k", None, (("a", b"1"), ("b", None)))
    client.produce({TopicPartition("from", 1): build_batch([record], codec="zstd")})
    assert copy_messages(client, CopyRequest("from", 1, 0, 10, "to", True)) == (1, 1, "")
    message = read_message(client, "to", 1, 0)
    assert isinstance(message, Message)
    assert (message.key.data, message.value.data, message.timestamp_ms) == (b"k", None, 1_000)
    assert [(name, value.data) for name, value in message.headers] == [("a", b"1"), ("b", None)]


def test_as_many_are_copied_as_asked_for_from_an_offset_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_copy, "PAGE_MESSAGES", 7)
    client.create_topics([NewTopic("many", 1), NewTopic("some", 1)])
    client.produce({TopicPartition("many", 0): batch([b"x"] * 50)})
    assert copy_messages(client, CopyRequest("many", 0, 10, 20, "some", False)) == (20, 30, "")
    assert end(client, "some") == 20
    assert copy_messages(client, CopyRequest("many", 0, 30, 100, "some", False)) == (20, 50, "")


def test_a_record_too_large_to_hold_ends_the_copy_before_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_copy, "RECORD_BYTES_MAX", 10)
    client.create_topics([NewTopic("large", 1), NewTopic("held", 1)])
    client.produce({TopicPartition("large", 0): batch([b"x", b"y" * 11, b"z"])})
    copied, next_offset, left_out = copy_messages(client, CopyRequest("large", 0, 0, 9, "held", False))
    assert (copied, next_offset, end(client, "held")) == (1, 1, 1)
    assert "too large" in left_out


def test_a_copy_into_itself_or_of_too_many_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="itself"):
        copy_messages(client, CopyRequest("a", 0, 0, 1, "a", False))
    with pytest.raises(ValueError, match="count"):
        copy_messages(client, CopyRequest("a", 0, 0, 0, "b", False))


def test_a_topic_that_is_not_there_is_the_brokers_error(broker: Broker) -> None:
    with Client(broker.bootstrap, missing_topic_ms=60) as client:
        client.create_topics([NewTopic("alone", 1)])
        with pytest.raises(BrokerRefused):
            copy_messages(client, CopyRequest("alone", 0, 0, 1, "no-such-topic", False))
