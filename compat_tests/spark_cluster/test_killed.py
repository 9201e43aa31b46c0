"""Exactly-once writes on a cluster whose parts are killed: sums stay equal."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.killing import Served
from compat_tests.spark.sending import batch
from compat_tests.spark_cluster.conftest import Filled
from compat_tests.spark_cluster.standalone import Standalone, kill, until
from kqueue.client import Client, NewTopic, TopicPartition

COUNT, PARTITIONS = 3000, 4
EVERY = 300


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Start a broker as a process, with `COUNT` records in the topic `in`."""
    with Served(tmp_path / "broker", random.Random(7)) as running:
        with Client(running.bootstrap) as client:
            client.create_topics([NewTopic(name, PARTITIONS) for name in ("in", "out")])
            for partition in range(PARTITIONS):
                values = [b"%d" % number for number in range(partition, COUNT, PARTITIONS)]
                client.produce({TopicPartition("in", partition): batch(values, keys=values)})
        yield running


def test_a_stream_outlives_its_executors_workers_and_broker(
    spark: SparkSession, cluster: Standalone, served: Served, tmp_path: Path
) -> None:
    def kill_executor() -> None:
        os.kill(cluster.executors()[0], signal.SIGKILL)

    def kill_python() -> None:
        for executor in cluster.executors():
            for child in psutil.Process(executor).children(recursive=True):
                child.kill()

    def kill_worker() -> None:
        kill(cluster.workers[0])
        cluster.start_worker()

    def kill_broker() -> None:
        served.kill()
        time.sleep(1)
        served.start()

    kills: dict[int, Callable[[], None]] = {1: kill_python, 3: kill_executor, 5: kill_broker, 7: kill_worker}
    options = {"kafka.bootstrap.servers": served.bootstrap}
    stream = spark.readStream.format("kqueue").options(**options, subscribe="in", startingOffsets="earliest")
    frame = stream.option("maxOffsetsPerTrigger", EVERY).load().select("key", "value", "partition")
    writer = frame.writeStream.format("kqueue").options(**options, topic="out", delivery="exactly-once")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    for number, strike in kills.items():
        until(lambda: _done(query) >= number or not query.isActive, f"batch {number} is done")  # noqa: B023
        assert query.isActive, query.exception()
        strike()
    assert query.awaitTermination(100)
    assert _done(query) >= COUNT // EVERY - 1
    _check_whole(spark, served.bootstrap)


def _done(query: object) -> int:
    progress = query.lastProgress  # type: ignore[attr-defined]
    return -1 if progress is None else int(progress["batchId"])


def _check_whole(spark: SparkSession, bootstrap: str) -> None:
    frame = spark.read.format("kqueue").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": "out"}).load()
    assert sorted(int(row.value) for row in frame.select("value").collect()) == list(range(COUNT))


def test_a_second_attempt_of_a_task_counts_once(
    spark: SparkSession, broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    """The first attempt of one task hands over its rows and goes on; Spark starts a second one."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 0:
            (attempts / str(context.attemptNumber())).touch()
            if context.attemptNumber() == 0:
                time.sleep(15)

    topic = filled(1000)
    broker.create_topic("out", 4)
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    frame = spark.read.format("kqueue").options(**options, subscribe=topic, minPartitions="6").load()
    rows = frame.select("key", "value").mapInArrow(slow, "key binary, value binary")
    writer = rows.write.format("kqueue").mode("append").options(**options, topic="out", delivery="exactly-once")
    writer.option("txnAppId", "speculative").option("txnVersion", "1").save()
    assert {file.name for file in attempts.iterdir()} == {"0", "1"}
    written, read = (sorted(one.value for one in broker.topics[name].records()) for name in ("out", topic))
    assert written == read
