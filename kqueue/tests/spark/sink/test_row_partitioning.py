from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import kqueue
from kqueue.client import Client
from kqueue.records.partitioners import make_partitioner
from kqueue.spark.errors import OptionError, RowRefused
from kqueue.spark.sink.row_partitioning import TargetTopic, TargetTopics, check_target, partition_rows
from kqueue.tests.spark.sink.helpers import options_for, rows_of
from kqueue.tests.tables import for_each

KEYS = [f"key {number}" for number in range(200)]


def target(count: int, name: str = "murmur2") -> TargetTopic:
    return TargetTopic(
        "t", count, tuple(range(count)), 1_000_000, "none", name, make_partitioner(name, random.Random(1))
    )


def placed(target: TargetTopic, rows: pa.RecordBatch) -> dict[int, list[str]]:
    return {
        topic_partition.partition: [one.decode() for one in part.column("value").to_pylist()]
        for topic_partition, part in partition_rows(target, rows)
    }


def test_each_row_goes_where_the_partitioner_says_in_its_order() -> None:
    expected: dict[int, list[str]] = {}
    one = make_partitioner("murmur2")
    for key in KEYS:
        expected.setdefault(one.partition(key.encode(), 7), []).append(key)
    assert placed(target(7), rows_of(KEYS)) == expected


def test_a_partition_that_a_row_names_is_taken() -> None:
    result = placed(target(3, "round_robin"), rows_of("abcdef", partition=[2, None, 2, None, 0, None]))
    assert result[2][:2] == ["a", "c"] or {"a", "c"} <= set(result[2])
    assert "e" in result[0]
    assert sorted(value for part in result.values() for value in part) == list("abcdef")


@for_each("wrong", [3, -1])
def test_row_for_an_unknown_partition_is_refused(wrong: int) -> None:
    with pytest.raises(RowRefused, match=f"a row asks for partition {wrong} of topic 't', which has 0 to 2"):
        partition_rows(target(3), rows_of("ab", partition=[0, wrong]))


def test_rows_without_a_key_stick_together() -> None:
    rows = pa.record_batch({"value": pa.array([b"x" * 10] * 100)})
    assert [part.num_rows for _, part in partition_rows(target(5), rows)] == [100]


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        running.create_topic("orders", 2, kqueue_partitioner="crc32", compression_type="zstd", max_message_bytes=5000)
        running.create_topic("plain")
        yield running


def test_a_topics_own_settings_hold(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        result = TargetTopics(client, options_for(broker), random.Random()).get("orders")
        assert (result.count, result.open, result.batch_bytes_max, result.codec, result.partitioner_name) == (
            2,
            (0, 1),
            5000,
            "zstd",
            "crc32",
        )
        sink_options = options_for(broker, partitioner="random", kafka_compression_type="lz4")
        other = TargetTopics(client, sink_options, random.Random()).get("orders")
        assert (other.codec, other.partitioner_name) == ("lz4", "random")
        plain = TargetTopics(client, options_for(broker), random.Random()).get("plain")
        assert (plain.codec, plain.partitioner_name) == ("none", "murmur2")


def test_unknown_topic_is_refused_with_a_similar_name(broker: kqueue.Broker) -> None:
    check_target(options_for(broker, topic="orders"))
    with pytest.raises(
        OptionError, match=r"topic: there is no topic 'order' on .*; did you mean 'orders'\?; create it first"
    ):
        check_target(options_for(broker, topic="order"))
