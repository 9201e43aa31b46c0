from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.consumer.embedded_protocol import assignment_bytes, read_assignment, read_subscription
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolSubscription, TopicPartitions
from kqueue.schema import encode
from kqueue.tests.groups.consumer.consumers import T, U
from kqueue.tests.groups.support import FakeTopics
from kqueue.tests.tables import for_each


@for_each("version", range(5))
def test_a_subscription_of_any_version(version: int) -> None:
    known = min(version, 3)
    sent = ConsumerProtocolSubscription(topics=["u", "t", "t"])
    if known >= 1:
        sent.owned_partitions = [TopicPartitions(topic="t", partitions=[1, 2])]
    if known >= 2:
        sent.generation_id = 7
    if known >= 3:
        sent.rack_id = "r"
    read = read_subscription(VERSION.pack(version) + encode(sent, known) + b"of a later version" * (version > 3))
    assert (read.version, read.topics) == (known, ("t", "u"))
    assert read.owned == ({"t": {1, 2}} if known >= 1 else {})
    assert (read.generation, read.rack_id) == (7 if known >= 2 else -1, "r" if known >= 3 else None)


@for_each("version", range(4))
def test_an_assignment_of_any_version(version: int) -> None:
    topics = FakeTopics()
    data = assignment_bytes(version, {U: {0: 5}, T: {3: 5, 1: 4}, bytes(16): {0: 1}}, topics)
    assert int.from_bytes(data[:2], "big") == version
    assert read_assignment(data, topics) == {T: {1, 3}, U: {0}}
    topics.put("t", 2)
    assert read_assignment(data, topics) == {T: {1}, U: {0}}, "without partitions that do not exist"
    assert read_assignment(b"", topics) == {}


@for_each("data", [b"", b"\0", b"\xff\xff", b"\0\0\0", b"\0\0\xff\xff\xff\xff"])
def test_malformed_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription(data)
