from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.fetcher import ConsumerRecord

import kqueue
from kqueue.base.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge, UnknownTopicOrPartition
from kqueue.embedded.inspection import topics


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        yield broker


def consumed(broker: kqueue.Broker, topic: str, count: int) -> list[ConsumerRecord]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    records = [next(consumer) for _ in range(count)]
    consumer.close()
    return records


def test_a_client_reads_what_was_produced_without_one(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    topic = broker.topics["t"]
    made = topic.produce("zwei Käffchen", key="table 4", headers={"h": b"1", "n": None}, timestamp=5000)
    assert (made.partition, made.offset, made.timestamp) == (0, 0, 5000)
    assert topic.produce(None, key=bytearray(b"gone"), headers=[("h", "x"), ("h", "y")]).offset == 1
    first, second = consumed(broker, "t", 2)
    assert (first.key, first.value, first.timestamp) == (b"table 4", "zwei Käffchen".encode(), 5000)
    assert first.headers == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, second.headers) == (b"gone", None, [("h", b"x"), ("h", b"y")])
    assert topic.records() == [made, topic.records()[1]]


def test_a_time_may_be_a_datetime_and_is_now_otherwise(broker: kqueue.Broker) -> None:
    broker.create_topic("t")
    topic = broker.topics["t"]
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert topic.produce("x", timestamp=at).timestamp == round(at.timestamp() * 1000)
    before = round(broker.clock.now().timestamp() * 1000)
    now = topic.produce("x").timestamp
    assert now is not None
    assert before <= now <= before + 60_000
    with pytest.raises(ValueError, match="time zone"):
        topic.produce("x", timestamp=at.replace(tzinfo=None))
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    stamped = broker.topics["stamped"]
    made = stamped.produce("x", timestamp=1000)
    assert made == stamped.records()[0]
    assert made.timestamp != 1000


def test_keys_go_where_kafkas_clients_send_them(broker: kqueue.Broker) -> None:
    for name in ("ours", "theirs"):
        broker.create_topic(name, 7)
    ours = broker.topics["ours"].produce_all([(b"key %d" % number, b"v") for number in range(40)])
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        theirs = [producer.send("theirs", b"v", key=b"key %d" % number) for number in range(40)]
    assert [one.partition for one in ours] == [one.get().partition for one in theirs]
    assert len({one.partition for one in ours}) > 1


def test_the_topics_own_partitioner_chooses(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 3, **{"kqueue.partitioner": "round_robin"})
    # one after another, though each time the topic is looked up anew
    assert [broker.topics["t"].produce("v", key="same").partition for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    assert broker.topics["t"].produce("v", key="same", partition=1).partition == 1


class Last:
    """Everything into the last partition."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(self, key: bytes | None, count: int, **_: object) -> int:
        return count - 1


def test_very_many_are_taken_in_parts_and_keep_their_order(
    broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "APPEND_RECORDS_MAX", 7)
    broker.create_topic("t", 2, **{"kqueue.partitioner": "round_robin"})
    made = broker.topics["t"].produce_all([b"%d" % number for number in range(50)])
    assert [(one.value, one.partition, one.offset) for one in made] == [(b"%d" % n, n % 2, n // 2) for n in range(50)]
    assert len(broker.topics["t"].records()) == 50


def test_a_partitioner_that_was_given_to_the_broker_chooses() -> None:
    with kqueue.Broker(partitioners={"last": Last}) as broker:
        broker.create_topic("t", 5, **{"kqueue.partitioner": "last"})
        assert {one.partition for one in broker.topics["t"].produce_all(["a", ("k", "b"), "c"])} == {4}


def test_many_records_keep_their_order_and_tell_their_places(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 3)
    topic = broker.topics["t"]
    values = [b"%d" % number + bytes(2000) for number in range(1000)]  # several batches for each partition
    made = topic.produce_all(values[:500]) + topic.produce_all(
        [(b"k%d" % (number % 5), values[number]) for number in range(500, 1000)]
    )
    assert [one.value for one in made] == values
    assert sorted(made, key=lambda one: (one.partition, one.offset)) == topic.records()
    assert sum(topic.end_offsets.values()) == 1000
    assert topic.produce_all([]) == []


@pytest.mark.parametrize("flush", ["group", "kafka"])
def test_on_a_disk_it_can_be_read_when_it_returns(tmp_path: Path, flush: str) -> None:
    with kqueue.Broker(tmp_path, kqueue_flush=flush) as broker:
        broker.create_topic("t", 2)
        topic = broker.topics["t"]
        for number in range(10):
            made = topic.produce(b"%d" % number, partition=number % 2)
            assert topic.end_offsets[made.partition] == made.offset + 1
            assert topic.records(made.partition)[-1] == made


def test_append_is_refused_as_for_a_client(broker: kqueue.Broker) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    broker.create_topic("small", max_message_bytes=500)
    broker.create_topic("late", message_timestamp_after_max_ms=1000)
    with pytest.raises(InvalidRecord):
        broker.topics["compacted"].produce("no key")
    with pytest.raises(RecordTooLarge):
        broker.topics["small"].produce(bytes(600))
    with pytest.raises(InvalidTimestamp):
        broker.topics["late"].produce("x", timestamp=datetime(2999, 1, 1, tzinfo=UTC))
    with pytest.raises(UnknownTopicOrPartition, match="not 5"):
        broker.topics["small"].produce("x", partition=5)
    with pytest.raises(TypeError, match="value: expected bytes, text, None, or a dict or list for JSON, found int: 5"):
        broker.topics["small"].produce(5)  # type: ignore[arg-type]
    assert all(broker.topics[name].records() == [] for name in broker.topics)


def test_a_dict_or_a_list_is_appended_as_json(broker: kqueue.Broker) -> None:
    broker.create_topic("json")
    topic = broker.topics["json"]
    topic.produce({"coffees": 2, "table": None}, key="a", headers={"type": "order"})
    topic.produce_all([[1, "é"], ("b", {"teas": 1})])
    assert [one.value for one in topic.records()] == [
        b'{"coffees": 2, "table": null}',
        b'[1, "\\u00e9"]',
        b'{"teas": 1}',
    ]
    assert [one.key for one in topic.records()] == [b"a", None, b"b"]
    assert topic.records()[0].headers == (("type", b"order"),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": 5}, "value: expected bytes, text, None, or a dict or list for JSON, found int: 5"),
        ({"value": {"price": float("nan")}}, "JSON"),
        ({"value": "x", "key": {"id": 1}}, "key: expected bytes, text or None, found dict"),
        ({"value": "x", "headers": ["a"]}, r"headers: expected a dict, or a list of \(name, value\) pairs"),
        ({"value": "x", "headers": "ab"}, "headers: expected a dict"),
        ({"value": "x", "headers": {"a": 5}}, "header a: expected bytes, text or None, found int"),
        ({"value": "x", "headers": [(b"a", b"x")]}, "headers: a name=b'a': expected text"),
        ({"value": "x", "partition": "0"}, "partition='0': expected the number"),
        ({"value": "x", "timestamp": 1.5}, "timestamp=1.5: expected milliseconds"),
        ({"value": "x", "timestamp": datetime(2026, 1, 1)}, "time zone"),
    ],
)
def test_an_argument_of_another_kind_is_named(broker: kqueue.Broker, arguments: dict[str, Any], message: str) -> None:
    broker.create_topic("kinds")
    with pytest.raises((TypeError, ValueError), match=message):
        broker.topics["kinds"].produce(**arguments)
    assert broker.topics["kinds"].records() == []


@pytest.mark.parametrize("values", ["abc", {"key": "value"}, 5, [("key", "value", "more")]])
def test_many_values_are_a_list(broker: kqueue.Broker, values: Any) -> None:
    broker.create_topic("lists")
    with pytest.raises(TypeError, match=r"values.*expected .*\(key, value\) pairs"):
        broker.topics["lists"].produce_all(values)


def test_a_topic_with_a_codec_holds_the_records_in_it(broker: kqueue.Broker) -> None:
    broker.create_topic("t", compression_type="gzip")
    made = broker.topics["t"].produce_all([bytes(1000)] * 100)
    assert broker.topics["t"].records() == made
    log = broker._server.broker.topics.partition("t", 0).log
    assert log.segments.size < 10_000
