"""Streaming reads, `spark.readStream.format("kqueue")`: limits and resuming from checkpoints."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import kqueue
from compat_tests.spark.sending import send
from compat_tests.waits import look_until
from kqueue.client import Client
from kqueue.spark.offsets import plain

NewTopic = Callable[..., str]
Place = tuple[str, int, int]
DEADLINE_S = 240


class Job:
    """A query from topics to a Parquet folder that can restart from its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, **options: object) -> None:
        self.spark = spark
        self.folder = folder
        self.options = options

    def start(
        self, available_now: bool = False, before: Callable[[DataFrame], DataFrame] = lambda frame: frame
    ) -> StreamingQuery:
        frame = (
            self.spark.readStream.format("kqueue")
            .options(**{name: str(value) for name, value in self.options.items()})
            .load()
        )
        writer = (
            before(frame).writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        return writer.start(str(self.folder / "out"))

    def finish(self) -> list[int]:
        """Run the query until no records are left; return the rows of each batch."""
        query = self.start(available_now=True)
        try:
            assert query.awaitTermination(DEADLINE_S)
            return [progress.numInputRows for progress in query.recentProgress]
        finally:
            query.stop()

    def rows(self) -> list[Place]:
        """Return the rows in the files that the log of Spark's file sink lists."""
        if not (self.folder / "out" / "_spark_metadata" / "0").is_file():
            return []
        rows = (
            self.spark.read.schema("topic string, partition int, offset long")
            .parquet(str(self.folder / "out"))
            .collect()
        )
        return sorted((row.topic, row.partition, row.offset) for row in rows)


@contextlib.contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def wait_for_rows(job: Job, query: StreamingQuery, count: int) -> None:
    """Wait until a query that runs has written so many rows."""

    def written() -> int:
        assert query.exception() is None, query.exception()
        return len(job.rows())

    look_until(written, count.__eq__, f"{count} rows", DEADLINE_S)


def offsets(topic: str, partition: int, start: int, end: int) -> list[Place]:
    return [(topic, partition, offset) for offset in range(start, end)]


def test_query_resumes_from_checkpoint(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """With a limit, a broker restart between runs, a new partition, and a committing group."""
    first, second = new_topic(2), f"{new_topic()}"
    for partition, count in ((0, 30), (1, 2)):
        send(broker, first, partition, [b"x"] * count)
    job = Job(
        spark, tmp_path, **{"kafka.bootstrap.servers": broker.bootstrap, "subscribePattern": f"{first}|{second}|later"},
        startingOffsets="earliest", maxOffsetsPerTrigger=10, groupId="dashboard",
    )  # fmt: skip
    rows = job.finish()
    assert sum(rows) == 32
    assert max(rows) <= 12
    broker.restart()
    send(broker, first, 1, [b"y"] * 5)
    broker.create_topic("later", 1)
    send(broker, "later", 0, [b"z"] * 3)
    assert sum(job.finish()) == 8
    assert sum(job.finish()) == 0
    assert job.rows() == sorted([*offsets(first, 0, 0, 30), *offsets(first, 1, 0, 7), *offsets("later", 0, 0, 3)])
    with Client(broker.bootstrap) as client:
        committed = {
            tuple(topic_partition): one.offset for topic_partition, one in client.committed("dashboard").items()
        }
    assert committed == {(first, 0): 30, (first, 1): 7, (second, 0): 0, ("later", 0): 3}


def test_latest_is_resolved_once_per_query(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A query that starts at latest and fails in its first batch misses no later record."""
    topic = new_topic()
    send(broker, topic, 0, [b"old"] * 5)
    job = Job(spark, tmp_path, **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
    assert sum(job.finish()) == 0
    send(broker, topic, 0, [b"new"] * 5)
    failing = job.start(
        before=lambda frame: frame.selectExpr("*", "raise_error('on purpose') as broken"), available_now=True
    )
    with pytest.raises(StreamingQueryException, match="on purpose"):
        failing.awaitTermination(DEADLINE_S)
    send(broker, topic, 0, [b"newer"] * 5)
    assert sum(job.finish()) == 10
    assert job.rows() == offsets(topic, 0, 5, 15)


def test_records_are_read_as_they_are_produced(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    job = Job(
        spark, tmp_path, **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}, startingOffsets="earliest"
    )
    with running(job.start()) as query:
        for number in range(3):
            send(broker, topic, number % 2, [b"x"] * 10)
            wait_for_rows(job, query, 10 * (number + 1))
        source = query.lastProgress.sources[0]
        assert plain(json.loads(source.endOffset)) == {topic: {"0": 20, "1": 10}}
    assert job.rows() == [*offsets(topic, 0, 0, 20), *offsets(topic, 1, 0, 10)]


def test_deleted_records_fail_query_or_are_skipped(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(broker, topic, 0, [b"x"] * 5)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    job = Job(spark, tmp_path, **options)
    job.finish()
    for _ in range(2):
        send(broker, topic, 0, [b"y"] * 5)
    with Client(broker.bootstrap) as client:
        client.delete_records({(topic, 0): 10})
    with pytest.raises(
        StreamingQueryException, match="offsets 5 to 9 were deleted before they were read; its log begins at 10"
    ):
        job.finish()
    assert job.rows() == offsets(topic, 0, 0, 5)
    going_on = Job(spark, tmp_path, **options, failOnDataLoss="false")
    assert sum(going_on.finish()) == 5
    assert going_on.rows() == [*offsets(topic, 0, 0, 5), *offsets(topic, 0, 10, 15)]


def test_recreated_topic_fails_the_query_or_is_read(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The new topic has as many records as the old one; only its topic id differs."""
    topic = new_topic()
    send(broker, topic, 0, [b"old"] * 5)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    job = Job(spark, tmp_path, **options)
    assert sum(job.finish()) == 5
    with Client(broker.bootstrap) as client:
        client.delete_topics([topic])
    broker.create_topic(topic, 1)
    send(broker, topic, 0, [b"new"] * 5)
    with pytest.raises(StreamingQueryException, match=f"topic '{topic}' was deleted and recreated"):
        job.finish()
    assert sum(Job(spark, tmp_path, **options, failOnDataLoss="false").finish()) == 5


def test_sealed_segments_of_running_broker_are_read(spark: SparkSession, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", 1, segment_bytes=1024)
        job = Job(spark, tmp_path, path=tmp_path / "data", startingOffsets="earliest")
        for number in range(3):
            for _ in range(40):
                send(broker, "orders", 0, [b"%03d" % number])
            job.finish()
        sealed = job.rows()
        assert sealed == offsets("orders", 0, 0, len(sealed))
        assert 80 < len(sealed) < 120
    job.finish()
    assert job.rows() == offsets("orders", 0, 0, 120)
