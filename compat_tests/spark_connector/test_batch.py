"""Batch reads return the broker's records for every kind of start and end offset."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark_connector.stock import Headers, Stock, held, offsets_json
from kqueue.spark.errors import OptionError
from kqueue.spark.options import OptionTable, security_of
from kqueue.spark.sink.options import TABLE as SINK
from kqueue.spark.source.options import TABLE as SOURCE
from kqueue.tests import golden

START_MS = 1_700_000_000_000
FAILED = (PySparkException, Py4JJavaError)
CODECS = ("gzip", "snappy", "lz4", "zstd")
HEADERS: Headers = (("trace", b"1"), ("none", None), ("empty", b""), ("trace", b"\x00\xff"))


def fill(broker: kqueue.Broker, topic: str, count: int = 10, partitions: int = 2) -> None:
    """Produce `count` records round-robin, one second apart from `START_MS`."""
    broker.create_topic(topic, partitions)
    for number in range(count):
        time_ms = START_MS + number * 1000
        broker.topics[topic].produce(
            f"{topic} {number}", key=f"k{number}", partition=number % partitions, timestamp=time_ms
        )


def create_truncated_topic(broker: kqueue.Broker, topic: str) -> None:
    """Make a topic of one partition whose first records are gone."""
    broker.create_topic(topic, segment_bytes=1024, retention_bytes=2048)
    for number in range(100):
        broker.topics[topic].produce(f"{topic} {number}")
    broker.clock.advance(minutes=10)
    assert 0 < broker.topics[topic].start_offsets[0] < 100


def test_every_column_is_what_the_broker_holds(stock: Stock) -> None:
    topic = "orders"
    stock.broker.create_topic(topic, 3)
    for number in range(30):
        key = None if number % 5 == 0 else b"" if number % 7 == 0 else b"key-%d" % number
        value = None if number % 11 == 3 else b"\x00\xff" * number
        headers = HEADERS if number % 4 == 1 else ()
        stock.broker.topics[topic].produce(
            value, key, headers=headers, partition=number % 3, timestamp=START_MS - number
        )
    assert stock.seen({"subscribe": topic}) == held(stock.broker.topics[topic].records())
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert stock.read({"subscribe": topic}).columns == columns


def test_timestamp_types(stock: Stock) -> None:
    stock.broker.create_topic("create")
    stock.broker.create_topic("append", message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC)
    for topic in ("create", "append"):
        stock.broker.topics[topic].produce("v", timestamp=START_MS)
    rows = (
        stock.read({"subscribe": "create,append"})
        .selectExpr("topic", "timestampType", "unix_millis(timestamp)")
        .collect()
    )
    timestamps = {topic: (kind, time_ms) for topic, kind, time_ms in rows}
    assert timestamps["create"] == (0, START_MS)
    kind, time_ms = timestamps["append"]
    assert kind == 1
    assert time_ms >= int(before.timestamp() * 1000)


def test_every_codec_is_read(stock: Stock) -> None:
    """The fixture contains Kafka's own segments, which are served unchanged."""
    topics = ["v2-none", *(f"v2-{codec}" for codec in CODECS)]
    with kqueue.Broker(snapshot=golden.data_folder("4.3"), log_retention_ms=-1) as broker:
        there = Stock(stock.spark, broker, Path())
        expected = [
            (topic, one.partition, one.offset, one.timestamp, one.key, one.value, one.headers)
            for topic in topics
            for one in golden.expected("4.3")[topic].records
        ]
        assert there.seen({"subscribe": ",".join(topics)}) == sorted(expected, key=lambda row: row[:3])


def test_old_formats_are_read(stock: Stock) -> None:
    topics = ("v0-gzip", "v1-lz4")
    with kqueue.Broker(snapshot=golden.data_folder("2.8"), log_retention_ms=-1) as broker:
        there = Stock(stock.spark, broker, Path())
        expected = [
            (topic, one.partition, one.offset, one.key, one.value)
            for topic in topics
            for one in golden.expected("2.8")[topic].records
        ]
        rows = [(*row[:3], row[4], row[5]) for row in there.seen({"subscribe": ",".join(topics)})]
        assert rows == sorted(expected, key=lambda row: row[:3])


def test_topics_by_pattern_and_by_assignment(stock: Stock) -> None:
    for topic in ("orders-eu", "orders-us", "mail"):
        fill(stock.broker, topic)
    by_pattern = stock.seen({"subscribePattern": "orders-.*"})
    assert by_pattern == held(
        [*stock.broker.topics["orders-eu"].records(), *stock.broker.topics["orders-us"].records()]
    )
    assert stock.seen({"subscribePattern": "rders.e"}) == held(stock.broker.topics["orders-eu"].records())
    assigned = stock.seen({"assign": '{"mail": [1], "orders-eu": [0]}'})
    assert assigned == held([*stock.broker.topics["mail"].records(1), *stock.broker.topics["orders-eu"].records(0)])


def test_start_and_end_offsets(stock: Stock) -> None:
    fill(stock.broker, "orders")
    here, there = offsets_json({"orders": {0: 2, 1: -2}}), offsets_json({"orders": {0: -1, 1: 3}})
    values = stock.values({"subscribe": "orders", "startingOffsets": here, "endingOffsets": there})
    assert values == ["orders 4", "orders 6", "orders 8", "orders 1", "orders 3", "orders 5"]


def test_start_timestamp_for_all_partitions(stock: Stock) -> None:
    fill(stock.broker, "orders")
    limits = {"startingTimestamp": START_MS + 3500, "endingTimestamp": START_MS + 7000}
    assert stock.values({"subscribe": "orders", **limits}) == ["orders 4", "orders 6", "orders 5"]


def test_start_timestamp_per_partition(stock: Stock) -> None:
    fill(stock.broker, "orders")
    starting, ending = ({0: START_MS + 4000, 1: START_MS}, {0: START_MS + 8000, 1: START_MS + 60_000})
    limits = {
        "startingOffsetsByTimestamp": offsets_json({"orders": starting}),
        "endingOffsetsByTimestamp": offsets_json({"orders": ending}),
    }
    assert stock.values({"subscribe": "orders", **limits}) == [
        "orders 4",
        "orders 6",
        *[f"orders {one}" for one in (1, 3, 5, 7, 9)],
    ]


def test_timestamp_after_last_record(stock: Stock) -> None:
    fill(stock.broker, "orders")
    options = {"subscribe": "orders", "startingTimestamp": START_MS + 60_000}
    with pytest.raises(FAILED, match="No offset matched from request"):
        stock.values(options)
    assert stock.values({**options, "startingOffsetsByTimestampStrategy": "latest"}) == []


def test_read_committed_skips_open_and_aborted_transactions(stock: Stock) -> None:
    with kqueue.Broker(snapshot=golden.data_folder("4.3"), log_retention_ms=-1) as broker:
        there = Stock(stock.spark, broker, Path())
        for view, isolation in (("txn", "read_uncommitted"), ("txn:committed", "read_committed")):
            rows = there.seen({"subscribe": "txn", "kafka.isolation.level": isolation})
            expected = sorted((one.partition, one.offset, one.value) for one in golden.expected("4.3")[view].records)
            assert [(row[1], row[2], row[5]) for row in rows] == expected


def test_compaction_gaps_are_skipped(stock: Stock) -> None:
    stock.broker.create_topic("prices", cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    for number in range(200):
        stock.broker.topics["prices"].produce(f"v{number}", key=f"k{number % 10}")
    stock.broker.clock.advance(minutes=5)
    left = stock.broker.topics["prices"].records()
    assert 10 <= len(left) < 100
    assert stock.seen({"subscribe": "prices"}) == held(left)


def test_deleted_records_fail_unless_data_loss_is_allowed(stock: Stock) -> None:
    create_truncated_topic(stock.broker, "orders")
    left = held(stock.broker.topics["orders"].records())
    assert stock.seen({"subscribe": "orders"}) == left
    from_zero = {"subscribe": "orders", "startingOffsets": offsets_json({"orders": {0: 0}})}
    with pytest.raises(FAILED, match="data may have been lost"):
        stock.values(from_zero)
    assert stock.seen({**from_zero, "failOnDataLoss": "false"}) == left


def test_partition_is_split(stock: Stock) -> None:
    fill(stock.broker, "orders", 20)
    options = {"subscribe": "orders", "minPartitions": 7}
    assert stock.read(options).rdd.getNumPartitions() >= 7
    assert stock.seen(options) == held(stock.broker.topics["orders"].records())


def test_deprecated_offset_fetching(stock: Stock) -> None:
    """The offset lookup of older connectors, which join a group."""
    fill(stock.broker, "orders")
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    stock.spark.conf.set(name, "true")
    try:
        for options in (
            {"subscribe": "orders"},
            {"subscribePattern": "or.*"},
            {"subscribe": "orders", "startingTimestamp": START_MS},
        ):
            assert stock.seen(options) == held(stock.broker.topics["orders"].records())
    finally:
        stock.spark.conf.unset(name)


def test_unknown_topics_and_partitions_fail(stock: Stock) -> None:
    stock.broker.create_topic("orders")
    with pytest.raises(FAILED, match=r"Assigned: Set\(orders-0\)"):
        stock.values({"subscribe": "orders", "startingOffsets": offsets_json({"orders": {0: -2, 7: 0}})})
    with pytest.raises(FAILED, match="UnknownTopicOrPartition"):
        stock.values({"subscribe": "nothing"})


def test_large_records_and_many_fetches(stock: Stock) -> None:
    """Records that fill several fetches, and one larger than the fetch size."""
    stock.broker.create_topic("large", max_message_bytes=4_000_000)
    for number in range(12):
        stock.broker.topics["large"].produce(bytes([number]) * (3_000_000 if number == 5 else 400_000))
    limits = {"kafka.max.partition.fetch.bytes": 500_000, "kafka.fetch.max.bytes": 600_000, "kafka.max.poll.records": 2}
    assert stock.seen({"subscribe": "large", **limits}) == held(stock.broker.topics["large"].records())


@pytest.mark.parametrize(("side", "table"), [("consumer", SOURCE), ("producer", SINK)])
def test_our_format_knows_each_option_of_kafkas_clients(spark: SparkSession, side: str, table: OptionTable) -> None:
    """It takes, ignores or refuses it with a reason; as unknown it would be taken for a mistake."""
    assert spark._jvm is not None
    clients = getattr(spark._jvm.org.apache.kafka.clients, side)
    names = getattr(clients, f"{side.capitalize()}Config").configNames()
    assert len(names) > 80
    unknown = []
    for name in names:
        try:
            table.values({f"kafka.{name}": "1"}, streaming=True, misplaced=lambda option: option.name)
            security_of({f"kafka.{name}": "1"})
        except OptionError as error:
            if "there is no option" in str(error) or "no client property" in str(error):
                unknown.append(name)
    assert not unknown
