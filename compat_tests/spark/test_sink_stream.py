"""Streaming writes, `df.writeStream.format("kqueue")`: at least once and exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

import kqueue
from compat_tests.spark.sending import send
from compat_tests.spark.test_sink_batch import records
from kqueue.spark.errors import OptionError
from kqueue.spark.sink.writer import stream_writer

NewTopic = Callable[..., str]


def stream(spark: SparkSession, broker: kqueue.Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def start(frame: DataFrame, broker: kqueue.Broker, checkpoint: str, **options: object) -> StreamingQuery:
    writer = (
        frame.writeStream.format("kqueue")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .trigger(availableNow=True)
    )
    return (
        writer.options(**{name: str(value) for name, value in options.items()})
        .option("checkpointLocation", checkpoint)
        .start()
    )


def run(frame: DataFrame, broker: kqueue.Broker, checkpoint: str, **options: object) -> None:
    query = start(frame, broker, checkpoint, **options)
    try:
        assert query.awaitTermination(90)
    finally:
        query.stop()


def values(broker: kqueue.Broker, topic: str) -> list[bytes | None]:
    return [one.value for part in records(broker, topic).values() for one in part]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_each_row_is_written_once(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str, delivery: str
) -> None:
    source, target = new_topic(2), new_topic(3)
    frame = stream(spark, broker, source).select("key", "value")
    expected: list[bytes] = []
    for turn in range(2):
        sent = [b"%d-%d" % (turn, number) for number in range(100)]
        send(broker, source, turn, sent, keys=sent)
        expected += sent
        run(frame, broker, checkpoint, topic=target, delivery=delivery)
        assert sorted(map(bytes, filter(None, values(broker, target)))) == sorted(expected)


def test_batch_without_spark_commit_is_not_written_again(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    """This simulates a crash between kqueue's commit and Spark's commit."""
    source, target = new_topic(), new_topic(2)
    frame = stream(spark, broker, source).select("key", "value").repartition(2)
    sent = [b"%d" % number for number in range(100)]
    send(broker, source, 0, sent, keys=sent)
    run(frame, broker, checkpoint, topic=target, delivery="exactly-once")
    commits = Path(checkpoint) / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink(missing_ok=True)
    run(frame, broker, checkpoint, topic=target, delivery="exactly-once")
    assert (commits / "0").exists()
    assert sorted(map(bytes, filter(None, values(broker, target)))) == sorted(sent)


def test_unsupported_output_modes_suggest_alternative() -> None:
    """Spark itself rejects "update" mode for every Python sink."""
    with pytest.raises(
        OptionError, match=r'outputMode\("complete"\) asks: use "append", or write each batch with foreachBatch'
    ):
        stream_writer({}, StructType(), overwrite=True)


def test_update_mode_is_refused_by_spark(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    """If that changes, docs/spark.md need not tell of `foreachBatch` for upserts."""
    frame = stream(spark, broker, new_topic()).groupBy("key").count().selectExpr("key", "string(count) value")
    writer = frame.writeStream.format("kqueue").outputMode("update").option("checkpointLocation", checkpoint)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", new_topic())
    with pytest.raises(StreamingQueryException, match="kqueue does not support Update mode"):
        writer.trigger(availableNow=True).start().awaitTermination()


def test_wrong_options_end_the_query(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    source = new_topic()
    send(broker, source, 0, [b"x"])
    with pytest.raises((StreamingQueryException, PySparkException), match="there is no topic 'gone'"):
        run(stream(spark, broker, source).select("value"), broker, checkpoint, topic="gone")
    with pytest.raises(
        (StreamingQueryException, PySparkException),
        match="txnAppId is for batch writes only; a stream has its query's id",
    ):
        run(stream(spark, broker, source).select("value"), broker, checkpoint, topic=source, txnAppId="me")
