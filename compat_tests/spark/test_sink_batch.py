"""Batch writes: `df.write.format("kqueue")`."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kqueue
from kqueue.client import EARLIEST, Client
from kqueue.records.batch import iter_batches, iter_records, read_header
from kqueue.records.partitioners.murmur2 import murmur2
from kqueue.records.record import Record

NewTopic = Callable[..., str]
UTC = datetime.UTC
NAMELESS_HEADER = "array(struct(cast(null as string) key, cast('v' as binary) value)) headers"


def write(frame: DataFrame, broker: kqueue.Broker, **options: object) -> None:
    writer = frame.write.format("kqueue").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**{name: str(value) for name, value in options.items()}).save()


def records(broker: kqueue.Broker, topic: str) -> dict[int, list[Record]]:
    """Return the records of each partition of a topic."""
    by_partition: dict[int, list[Record]] = {}
    with Client(broker.bootstrap) as client:
        for topic_partition in client.metadata([topic]).topics[topic].topic_partitions:
            by_partition[topic_partition.partition] = []
            at, end = (client.offsets({topic_partition: which})[topic_partition].offset for which in (EARLIEST, -1))
            assert at is not None
            while at < end:
                data = client.fetch({topic_partition: at})[topic_partition].records
                for position, header in iter_batches(data):
                    by_partition[topic_partition.partition] += iter_records(data, position)
                    at = header.next_offset
    return by_partition


def test_rows_become_records(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    time = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, UTC)
    rows = [
        ("k1", bytearray(b"v1"), [("a", bytearray(b"1")), ("b", None)], 1, time),
        (None, None, None, 0, None),
        ("ключ", bytearray(b""), [], 1, time),
    ]
    schema = (
        "key string, value binary, headers array<struct<key string, value binary>>, partition int, timestamp timestamp"
    )
    before_ms = int(datetime.datetime.now(UTC).timestamp() * 1000)
    write(spark.createDataFrame(rows, schema).coalesce(1), broker, topic=topic)
    by_partition = records(broker, topic)
    [bare] = by_partition[0]
    assert (bare.key, bare.value, bare.headers) == (None, None, ())
    assert before_ms <= bare.timestamp <= before_ms + 60_000
    assert [(one.key, one.value, one.headers, one.timestamp) for one in by_partition[1]] == [
        (b"k1", b"v1", (("a", b"1"), ("b", None)), 1714979289123),
        ("ключ".encode(), b"", (), 1714979289123),
    ]


def test_rows_read_from_a_topic_can_be_written(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    first, second = new_topic(3), new_topic(3)
    write(spark.range(1000).selectExpr("cast(id as string) key", "cast(id * 2 as string) value"), broker, topic=first)
    read = (
        spark.read.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap).option("includeHeaders", "true")
    )
    write(read.option("subscribe", first).load(), broker, topic=second)
    assert {index: [one.value for one in part] for index, part in records(broker, first).items()} == {
        index: [one.value for one in part] for index, part in records(broker, second).items()
    }


def test_keys_are_partitioned_as_by_java_clients(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(5)
    write(spark.range(500).selectExpr("cast(id as string) key", "'x' value"), broker, topic=topic)
    by_partition = records(broker, topic)
    assert sum(map(len, by_partition.values())) == 500
    for partition, part in by_partition.items():
        assert part
        assert {(murmur2(one.key or b"") & 0x7FFFFFFF) % 5 for one in part} == {partition}


def test_partitioner_follows_from_topic_or_option(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    own = new_topic(3, kqueue_partitioner="round_robin")
    frame = spark.range(9).selectExpr("'same' key", "cast(id as string) value").coalesce(1)
    write(frame, broker, topic=own)
    assert [len(part) for part in records(broker, own).values()] == [3, 3, 3]
    named = new_topic(3)
    write(frame, broker, topic=named, partitioner="round_robin")
    assert [len(part) for part in records(broker, named).values()] == [3, 3, 3]


def test_each_row_may_name_its_topic(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic(2)
    where = [f"if(id % 2 = 0, '{one}', '{other}') topic", "if(id = 3, 1, null) partition"]
    write(spark.range(10).selectExpr("cast(id as string) value", *where), broker)
    assert sorted(record.value for record in records(broker, one)[0]) == [b"0", b"2", b"4", b"6", b"8"]
    there = records(broker, other)
    assert sorted(record.value for part in there.values() for record in part) == [b"1", b"3", b"5", b"7", b"9"]
    assert b"3" in [record.value for record in there[1]]


def test_batches_have_requested_codec_and_size(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    frame = spark.range(2000).selectExpr("repeat('x', 100) value").coalesce(1)
    write(frame, broker, topic=topic, **{"kafka.compression.type": "zstd", "kafka.batch.size": 50_000})
    with Client(broker.bootstrap) as client:
        data = client.fetch({(topic, 0): 0})[(topic, 0)].records
    headers = [header for _, header in iter_batches(data)]
    assert {header.codec_id for header in headers} == {4}
    assert sum(header.record_count for header in headers) == 2000
    assert 4 < len(headers) < 10


MISTAKES: list[tuple[list[str], dict[str, str], str]] = [
    (
        ["'x' value"],
        {"topic": "gone"},
        r"topic: there is no topic 'gone' on 127.0.0.1:\d+; did you mean 'gong'\?; create it first",
    ),
    (["'x' value"], {}, "rows have no target topic: give the option topic, or a column 'topic'"),
    (["'x' vlaue"], {"topic": "gong"}, r"there is no column 'vlaue' to write; did you mean 'value'\?"),
    (["'x' key"], {"topic": "gong"}, "there is no column 'value'; the frame has key"),
    (["1 value"], {"topic": "gong"}, "the column 'value' is int, expected binary or string: cast it"),
    (["'x' value", "'y' partition"], {"topic": "gong"}, "the column 'partition' is string, expected int"),
    (["'x' value"], {"topci": "gong"}, r"there is no option 'topci'; did you mean 'topic'\?"),
    (["'x' value"], {"topic": "gong", "partitioner": "murmur"}, "partitioner: .*murmur2"),
    (
        ["'x' value", "7 partition"],
        {"topic": "gong"},
        "a row asks for partition 7 of topic 'gong', which has 0 to 0",
    ),
    (["'x' value", "'no-such' topic"], {}, "there is no topic 'no-such' on"),
    (["'x' value", "cast(null as string) topic"], {}, "the column 'topic' is null in 1 of 1 rows"),
    (
        ["repeat('x', 70000) value"],
        {"topic": "small"},
        r"a row for small-0 takes 7\d{4} bytes as a batch, and its topic takes",
    ),
    (["'x' value", NAMELESS_HEADER], {"topic": "gong"}, "1 headers have no key"),
    (["'x' value"], {"topic": "gong", "delivery": "exactly-once"}, "needs txnAppId and txnVersion"),
]


class TestMistakes:
    def test_errors_are_raised_on_driver_before_any_write(self, spark: SparkSession, broker: kqueue.Broker) -> None:
        broker.create_topic("gong")
        broker.create_topic("small", max_message_bytes=10_000)
        for expressions, options, words in MISTAKES:
            with pytest.raises(PySparkException, match=words):
                write(spark.range(1).selectExpr(*expressions), broker, **options)
        assert records(broker, "gong") == {0: []}
        assert records(broker, "small") == {0: []}

    def test_unreachable_broker_is_named(self, spark: SparkSession) -> None:
        with kqueue.Broker() as broker:
            gone = broker.bootstrap
        writer = spark.range(1).selectExpr("'x' value").write.format("kqueue").mode("append").option("topic", "t")
        with pytest.raises(PySparkException, match=gone):
            writer.option("kafka.bootstrap.servers", gone).option("kafka.delivery.timeout.ms", "500").save()

    def test_a_topic_is_not_overwritten(self, spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        writer = spark.range(1).selectExpr("'x' value").write.format("kqueue").mode("overwrite").option("topic", topic)
        with pytest.raises(PySparkException, match="overwritten"):
            writer.option("kafka.bootstrap.servers", broker.bootstrap).save()


class TestExactlyOnce:
    def test_repeated_write_is_done_once(self, spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
        topic = new_topic(3)
        frame = spark.range(300).selectExpr("cast(id as string) key", "cast(id as string) value").repartition(3)
        for version in (1, 1, 2, 1):
            write(frame, broker, topic=topic, delivery="exactly-once", txnAppId="nightly", txnVersion=version)
        values = [one.value for part in records(broker, topic).values() for one in part]
        assert len(values) == 600
        assert {values.count(value) for value in values} == {2}

    def test_the_same_number_for_another_topic_is_refused(
        self, spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
    ) -> None:
        first, second = new_topic(), new_topic()
        frame = spark.range(5).selectExpr("cast(id as string) value")
        once = {"delivery": "exactly-once", "txnAppId": "nightly", "txnVersion": 1}
        write(frame, broker, topic=first, **once)
        with pytest.raises(PySparkException, match="take a txnAppId for each topic"):
            write(frame, broker, topic=second, **once)
        assert records(broker, second) == {0: []}

    def test_failed_write_is_not_visible(self, spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('broken'), cast(id as string)) value")
        with pytest.raises(PySparkException, match="broken"):
            write(frame, broker, topic=topic, delivery="exactly-once", txnAppId="nightly", txnVersion=1)
        assert records(broker, topic) == {0: []}
        whole = spark.range(5).selectExpr("cast(id as string) value")
        write(whole, broker, topic=topic, delivery="exactly-once", txnAppId="nightly", txnVersion=1)
        assert sorted(one.value for one in records(broker, topic)[0]) == [b"0", b"1", b"2", b"3", b"4"]

    def test_finished_staging_is_deleted(self, spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        frame = spark.range(50).selectExpr("cast(id as string) value")
        write(frame, broker, topic=topic, delivery="exactly-once", txnAppId="nightly", txnVersion=1)
        left = records(broker, "_kqueue-sink-nightly")
        assert {partition: len(records) for partition, records in left.items()} == {0: 1, 1: 0, 2: 0, 3: 0, 4: 0}
        with Client(broker.bootstrap) as client:
            assert read_header(client.fetch({(topic, 0): 0})[(topic, 0)].records).has_producer
