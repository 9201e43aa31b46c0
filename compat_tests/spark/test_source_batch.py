"""Batch queries: `spark.read.format("kqueue")`, from a broker and from folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kqueue
from compat_tests.spark.sending import NOW_MS, send
from kqueue.client import Client
from kqueue.tests import golden

COLUMNS = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
)
NewTopic = Callable[..., str]


def read(spark: SparkSession, broker: kqueue.Broker, **options: object) -> DataFrame:
    reader = spark.read.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def test_records_come_in_the_columns_of_sparks_own_source(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(broker, topic, 0, [b"a", None], keys=[b"k", None], headers=[("h", b"1"), ("h", None)])
    send(broker, topic, 1, [b"c"], codec="zstd")
    frame = read(spark, broker, subscribe=topic, includeHeaders="true")
    assert frame.schema.simpleString() == COLUMNS + ",headers:array<struct<key:string,value:binary>>>"
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset, row.key, row.value) for row in rows] == [
        (0, 0, b"k", b"a"),
        (0, 1, None, None),
        (1, 0, None, b"c"),
    ]
    assert [(header.key, header.value) for header in rows[0].headers] == [("h", b"1"), ("h", None)]
    assert rows[2].headers == []
    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}
    times = frame.selectExpr("unix_millis(timestamp) as ms").collect()
    assert sorted(row.ms for row in times) == [NOW_MS, NOW_MS, NOW_MS + 1]


def test_empty_topic_returns_no_rows(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    frame = read(spark, broker, subscribe=new_topic())
    assert frame.collect() == []
    assert read(spark, broker, subscribePattern="nothing.*").count() == 0


def test_offsets_bound_what_is_read(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        send(broker, topic, partition, [b"%d" % number for number in range(10)])
    start, end = {topic: {"0": 4, "1": -2}}, {topic: {"0": 6, "1": -1}}
    frame = read(
        spark,
        broker,
        subscribe=topic,
        startingOffsets=json.dumps(start),
        endingOffsets=json.dumps(end),
        minPartitions="5",
    )
    assert frame.rdd.getNumPartitions() == 5
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [
        (0, 4),
        (0, 5),
        *((1, offset) for offset in range(10)),
    ]
    by_time = read(spark, broker, subscribe=topic, startingTimestamp=NOW_MS + 3, endingTimestamp=NOW_MS + 5)
    assert sorted((row.partition, row.offset) for row in by_time.collect()) == [(0, 3), (0, 4), (1, 3), (1, 4)]


@pytest.mark.parametrize("engine", ["python", "fast"])
def test_small_partitions_share_a_split(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, engine: str
) -> None:
    topic = new_topic(12)
    for partition in range(12):
        for _ in range(3):
            send(broker, topic, partition, [b"%d" % partition] * 5, codec="gzip" if partition % 2 else "none")
    frame = read(spark, broker, subscribe=topic, decoder=engine)
    assert frame.rdd.getNumPartitions() == 1
    counted = frame.groupBy("partition", "value").count().collect()
    assert sorted((row.partition, row.value, row["count"]) for row in counted) == [
        (one, b"%d" % one, 15) for one in range(12)
    ]
    assert read(spark, broker, subscribe=topic, splitBytes="1").rdd.getNumPartitions() == 12


def test_a_compacted_topic_has_gaps(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact", segment_bytes=1024, min_cleanable_dirty_ratio=0.01)
    for number in range(200):
        send(broker, topic, 0, [b"%d" % number], keys=[b"k%d" % (number % 3)])
    broker.clock.advance(minutes=5)
    rows = read(spark, broker, subscribe=topic).collect()
    assert 3 <= len(rows) < 150
    assert rows[-1].offset == 199
    assert {row.key: row.value for row in rows} == {b"k0": b"198", b"k1": b"199", b"k2": b"197"}


MISTAKES: list[tuple[dict[str, str], str]] = [
    (
        {"subscribe": "TOPIC", "startingOfsets": "earliest"},
        "there is no option 'startingofsets'; did you mean 'startingOffsets'?",
    ),
    ({"subscribe": "TOPIX"}, "there is no topic 'TOPIX'"),
    ({"subscribe": "TOPIC", "assign": '{"TOPIC":[0]}'}, "subscribe and assign contradict each other"),
    (
        {"subscribe": "TOPIC", "startingOffsets": '{"TOPIC":{"0":7}}'},
        "startingOffsets names offset 7 of TOPIC-0, whose log ends at 2",
    ),
    ({"subscribe": "TOPIC", "groupId": "g"}, "groupId is for streams only"),
]


def test_errors_are_raised_on_driver(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(broker, topic, 0, [b"a", b"b"])
    for options, words in MISTAKES:
        given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
        with pytest.raises(PySparkException) as caught:
            read(spark, broker, **given).collect()
        message = str(caught.value)
        assert words.replace("TOPIC", topic) in message
        assert message.count("During handling") == 0
        assert message.count("\n") < 12


def test_user_schema_is_rejected(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    reader = (
        spark.read.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", new_topic())
    )
    with pytest.raises(PySparkException, match="leave the schema out"):
        reader.schema("value string").load().collect()


def test_deleted_records_are_refused_or_skipped(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(broker, topic, 0, [b"0"] * 3)
    send(broker, topic, 0, [b"1"] * 3)
    with Client(broker.bootstrap) as client:
        client.delete_records({(topic, 0): 3})
    from_zero = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    with pytest.raises(
        PySparkException, match=r"names offset 0 of .*, whose log begins at 3; set failOnDataLoss to false"
    ):
        read(spark, broker, **from_zero).collect()
    rows = read(spark, broker, failOnDataLoss="false", **from_zero).collect()
    assert [row.offset for row in rows] == [3, 4, 5]


# --- folders


@pytest.mark.parametrize(
    ("version", "isolation"),
    [
        (golden.VERSIONS[0], "read_uncommitted"),
        (golden.VERSIONS[-1], "read_committed"),
        pytest.param(golden.VERSIONS[0], "read_committed", marks=pytest.mark.thorough),
        pytest.param(golden.VERSIONS[-1], "read_uncommitted", marks=pytest.mark.thorough),
    ],
)
def test_every_record_of_a_kafka_folder_is_read(spark: SparkSession, version: str, isolation: str) -> None:
    expected = golden.expected(version)
    reader = spark.read.format("kqueue").option("includeHeaders", "true").option("kafka.isolation.level", isolation)
    rows = reader.load(str(golden.data_folder(version))).collect()
    by_topic: dict[str, list[tuple[object, ...]]] = {}
    for row in rows:
        headers = tuple((header.key, None if header.value is None else bytes(header.value)) for header in row.headers)
        by_topic.setdefault(row.topic, []).append(
            (row.partition, row.offset, row.timestampType, row.key, row.value, headers)
        )
    committed = expected["txn:committed"].records
    for name, topic in expected.items():
        if ":" in name or name.startswith("__"):
            continue
        records = committed if isolation == "read_committed" and name == "txn" else topic.records
        wanted = [
            (
                one.partition,
                one.offset,
                one.timestamp_type - 1,
                one.key,
                one.value,
                tuple((key, value) for key, value in one.headers),
            )
            for one in records
        ]
        assert sorted(by_topic.get(name, []), key=lambda row: row[:2]) == sorted(wanted, key=lambda row: row[:2]), name


def test_active_segment_of_running_broker_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("orders", 1, segment_bytes=1024)
        for number in range(100):
            send(broker, "orders", 0, [b"%03d" % number])
        sealed = spark.read.format("kqueue").load(str(tmp_path)).count()
        everything = (
            spark.read.format("kqueue").option("includeActiveSegment", "true").load(str(tmp_path / "orders-0")).count()
        )
        assert 50 < sealed < 100
        assert everything == 100
    assert spark.read.format("kqueue").load(str(tmp_path)).count() == 100


def test_a_torn_segment_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        send(broker, "orders", 0, [b"x" * 100] * 10)
        send(broker, "orders", 0, [b"y" * 100] * 10)
    file = tmp_path / "orders-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[700] ^= 1
    file.write_bytes(data)
    words = rf"orders-0/{0:020d}.log at position .*checksum.*; stop its broker, and mend it with: kqueue log repair"
    with pytest.raises(PySparkException, match=words):
        spark.read.format("kqueue").load(str(tmp_path)).collect()
