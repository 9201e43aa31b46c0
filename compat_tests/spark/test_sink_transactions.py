"""`delivery=transactional`: readers of committed records see all of a batch or nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.sending import send
from compat_tests.spark.test_sink_stream import run, start, stream
from kqueue.client import Client
from kqueue.tests.spark.sink.helpers import committed_in

NewTopic = Callable[..., str]


def open_transactions(broker: kqueue.Broker) -> int:
    with Client(broker.bootstrap) as client:
        return sum(len(transactions) for transactions in client.transactions.find(["Ongoing"]).values())


def test_batch_without_spark_commit_is_not_written_again(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    """This simulates a crash between kqueue's commit and Spark's commit."""
    source, target = new_topic(), new_topic(2)
    frame = stream(spark, broker, source).select("key", "value").repartition(2)
    sent = [b"%03d" % number for number in range(100)]
    send(broker, source, 0, sent, keys=sent)
    run(frame, broker, checkpoint, topic=target, delivery="transactional")
    (Path(checkpoint) / "commits" / "0").unlink()
    (Path(checkpoint) / "commits" / ".0.crc").unlink(missing_ok=True)
    run(frame, broker, checkpoint, topic=target, delivery="transactional")
    assert committed_in(broker, target) == [one.decode() for one in sent]
    assert open_transactions(broker) == 0


def test_a_failed_batch_is_written_after_a_restart(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    source, target = new_topic(), new_topic(2)
    sent = [b"%03d" % number for number in range(100)]
    send(broker, source, 0, sent, keys=sent)
    frame = stream(spark, broker, source).select("key", "value").repartition(2)
    failing = frame.selectExpr("key", "if(value = '070', raise_error('bad row'), value) value")
    query = start(failing, broker, checkpoint, topic=target, delivery="transactional")
    with pytest.raises(StreamingQueryException, match="bad row"):
        query.awaitTermination(90)
    assert committed_in(broker, target) == []
    run(frame, broker, checkpoint, topic=target, delivery="transactional")
    assert committed_in(broker, target) == [one.decode() for one in sent]
    assert open_transactions(broker) == 0


def test_batch_writes_with_a_number_are_written_once(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    target = new_topic(3)
    rows = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) key", "cast(id as string) value")
    writer = rows.write.format("kqueue").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer = writer.option("topic", target).option("delivery", "transactional").option("txnAppId", target)
    for number in (1, 1, 2):
        writer.option("txnVersion", str(number)).save()
    assert committed_in(broker, target) == sorted([str(one) for one in range(100)] * 2)


def test_a_timeout_that_brokers_do_not_allow_is_named_before_the_job(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) value")
    writer = rows.write.format("kqueue").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer = writer.option("delivery", "transactional").option("txnAppId", "a").option("txnVersion", "1")
    with pytest.raises(PySparkException, match=r"transaction\.max\.timeout\.ms \(900000\)"):
        writer.option("topic", new_topic()).option("kafka.transaction.timeout.ms", "900001").save()
