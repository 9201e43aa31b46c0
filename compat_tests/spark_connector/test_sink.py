"""The connector's sink, batch and streaming: the broker holds the records that Spark wrote."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from compat_tests.spark_connector.stock import Headers, Stock
from kqueue.testing import faults

FAILED = (PySparkException, Py4JJavaError)
HEADERS: Headers = (("trace", b"1"), ("none", None), ("trace", b"\x00\xff"))
KEY_VALUE = "key STRING, value STRING"


def pairs(stock: Stock, topic: str) -> list[tuple[str, str]]:
    return sorted(
        ((one.key or b"").decode(), (one.value or b"").decode()) for one in stock.broker.topics[topic].records()
    )


def some(begin: int, count: int) -> list[tuple[str, str]]:
    return sorted((f"k{number}", f"v{number}") for number in range(begin, begin + count))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written(stock: Stock, codec: str) -> None:
    stock.broker.create_topic("orders", 3)
    frame = stock.frame(some(0, 300), KEY_VALUE)
    stock.write(frame, {"topic": "orders", "kafka.compression.type": codec})
    assert pairs(stock, "orders") == some(0, 300)


def test_keys_are_partitioned_by_murmur2(stock: Stock) -> None:
    """The Java client and kqueue compute the same murmur2 hash."""
    stock.broker.create_topic("orders", 5)
    stock.write(stock.frame(some(0, 100), KEY_VALUE), {"topic": "orders"})
    sparks = {one.key: one.partition for one in stock.broker.topics["orders"].records()}
    assert len(sparks) == 100
    assert set(sparks.values()) == set(range(5))
    assert sparks == {key: stock.broker.topics["orders"].produce("", key=key).partition for key in sparks}


def test_headers_topics_and_partitions_by_column(stock: Stock) -> None:
    for topic in ("orders", "mail"):
        stock.broker.create_topic(topic, 3)
    schema = "topic STRING, partition INT, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = [
        ("orders", 2, b"a", b"\x00", [*HEADERS]),
        ("orders", 0, None, b"", None),
        ("mail", 1, b"", None, []),
    ]
    stock.write(stock.frame(rows, schema), {"includeHeaders": "true"})
    records = [*stock.broker.topics["orders"].records(), *stock.broker.topics["mail"].records()]
    assert {(one.topic, one.partition): (one.key, one.value, one.headers) for one in records} == {
        ("orders", 2): (b"a", b"\x00", HEADERS),
        ("orders", 0): (None, b"", ()),
        ("mail", 1): (b"", None, ()),
    }


def test_missing_topic_is_auto_created(stock: Stock) -> None:
    stock.write(stock.frame(some(0, 10), KEY_VALUE), {"topic": "new"})
    assert pairs(stock, "new") == some(0, 10)


def test_unknown_partition_is_rejected(stock: Stock) -> None:
    stock.broker.create_topic("orders", 2)
    frame = stock.frame([("orders", 7, "v")], "topic STRING, partition INT, value STRING")
    with pytest.raises(FAILED, match="orders"):
        stock.write(frame, {"kafka.max.block.ms": 1000})
    assert stock.broker.topics["orders"].records() == []


def test_too_large_record_is_rejected(stock: Stock) -> None:
    stock.broker.create_topic("small", max_message_bytes=1000)
    with pytest.raises(FAILED, match="RecordTooLarge"):
        stock.write(stock.frame([("v" * 5000,)], "value STRING"), {"topic": "small"})
    assert stock.broker.topics["small"].records() == []


def test_wrong_column_type_is_rejected_by_spark(stock: Stock) -> None:
    with pytest.raises(AnalysisException, match="value"):
        stock.write(stock.frame([(1,)], "value INT"), {"topic": "orders"})


@pytest.mark.parametrize("settings", [{}, {"kafka.enable.idempotence": "false", "kafka.acks": "1"}])
def test_many_records_of_many_tasks(stock: Stock, settings: dict[str, str]) -> None:
    """With and without idempotence, in small batches, with several requests in flight."""
    stock.broker.create_topic("orders", 4)
    frame = stock.spark.range(0, 20_000, 1, 4).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")
    stock.write(frame, {"topic": "orders", "kafka.batch.size": 2000, "kafka.linger.ms": 1, **settings})
    assert sorted(int(one.key or b"") for one in stock.broker.topics["orders"].records()) == list(range(20_000))


def test_network_faults_cause_no_loss_or_duplicates(stock: Stock) -> None:
    """The producers are idempotent: the broker recognizes retried batches."""
    stock.broker.create_topic("orders", 2)
    with faults(stock.broker, seed=3) as fault:
        fault.drop_reply("Produce", times=2)
        fault.disconnect("Produce", times=2)
        fault.fail("Produce", times=2)
        options = {
            "topic": "orders",
            "kafka.request.timeout.ms": 1500,
            "kafka.delivery.timeout.ms": 60_000,
            "kafka.batch.size": 1000,
        }
        stock.write(stock.frame(some(0, 500), KEY_VALUE), options)
        assert len(fault.fired) == 6
    assert pairs(stock, "orders") == some(0, 500)


def test_topic_to_topic_with_query_and_broker_restarts(stock: Stock) -> None:
    for topic in ("orders", "copied"):
        stock.broker.create_topic(topic, 2)
    stream = stock.stream({"subscribe": "orders", "startingOffsets": "earliest"}).select("key", "value", "partition")
    expected: list[tuple[str, str]] = []
    for begin in (0, 20, 40):
        stock.broker.topics["orders"].produce_all(some(begin, 20))
        expected += some(begin, 20)
        query = stock.to_topic(stream, {"topic": "copied"}).start()
        query.processAllAvailable()
        stock.broker.restart()
        stock.broker.topics["orders"].produce_all(some(begin + 100, 5))
        expected += some(begin + 100, 5)
        query.processAllAvailable()  # an interrupted batch would be written again: the sink is at least once
        query.stop()
        assert pairs(stock, "copied") == sorted(expected)
    original, copied = (
        {(one.key, one.partition) for one in stock.broker.topics[topic].records()} for topic in ("orders", "copied")
    )
    assert copied == original


def test_aggregate_in_update_mode(stock: Stock) -> None:
    """Update mode: later counts of a key follow earlier ones."""
    for topic in ("orders", "counts"):
        stock.broker.create_topic(topic)
    stream = stock.stream({"subscribe": "orders", "startingOffsets": "earliest"})
    counts = stream.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
    query = stock.to_topic(counts, {"topic": "counts"}).outputMode("update").start()
    for _ in range(3):
        stock.broker.topics["orders"].produce_all([("a", "x"), ("a", "x"), ("b", "x")])
        query.processAllAvailable()
    latest = {one.key: one.value for one in stock.broker.topics["counts"].records()}
    assert latest == {b"a": b"6", b"b": b"3"}
