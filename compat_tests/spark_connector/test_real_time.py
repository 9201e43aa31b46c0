"""Real-Time Mode (Spark 4.1; PySpark 4.3): long-running tasks and periodic offset commits.

Each partition occupies a task slot for a whole batch. A task without a free slot never starts.
"""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery
from pyspark.version import __version__ as spark_version

from compat_tests.spark_connector.connector import SLOTS
from compat_tests.spark_connector.stock import TIMEOUT_S, Stock
from compat_tests.waits import eventually_equal

VERSION = tuple(int(part) for part in spark_version.split(".")[:2])
pytestmark = pytest.mark.skipif(VERSION < (4, 3), reason="PySpark has trigger(realTime=...) from 4.3")
BATCH = "1 second"
OPTIONS = {"subscribe": "orders", "startingOffsets": "earliest"}


def copy(stock: Stock, batch: str = BATCH) -> StreamingQuery:
    """Start a stateless query from `orders` to `copied`."""
    stream = stock.stream(OPTIONS).selectExpr("key", "UPPER(CAST(value AS STRING)) AS value", "partition")
    return (
        stock.to_topic(stream.where("value NOT LIKE 'SKIP%'"), {"topic": "copied"})
        .outputMode("update")
        .trigger(realTime=batch)
        .start()
    )


def values(stock: Stock) -> list[str]:
    return sorted((one.value or b"").decode() for one in stock.broker.topics["copied"].records())


def wait_for_values(stock: Stock, expected: list[str]) -> None:
    """Wait until exactly these values are in the output topic."""
    eventually_equal(lambda: values(stock), sorted(expected), "values of the copy", TIMEOUT_S)


@pytest.fixture
def topics(stock: Stock) -> None:
    for topic in ("orders", "copied"):
        stock.broker.create_topic(topic, SLOTS)


@pytest.mark.usefixtures("topics")
def test_records_are_written_before_their_batch_ends(stock: Stock) -> None:
    """In a batch of one hour, records are written before the batch ends."""
    stock.broker.topics["orders"].produce_all(["a", "b", "skip"])
    query = copy(stock, "1 hour")
    try:
        wait_for_values(stock, ["A", "B"])
        for number in range(3):
            stock.broker.topics["orders"].produce(f"n{number}")
            wait_for_values(stock, ["A", "B", *(f"N{earlier}" for earlier in range(number + 1))])
        assert query.lastProgress is None
        assert query.exception() is None
    finally:
        query.stop()


@pytest.mark.usefixtures("topics")
def test_several_batches_and_query_restart(stock: Stock) -> None:
    expected: list[str] = []
    for run in range(2):
        query = copy(stock)
        try:
            for number in range(3):
                stock.broker.topics["orders"].produce(f"r{run} {number}")
                expected.append(f"R{run} {number}")
                wait_for_values(stock, expected)
            wait_for_committed_offsets(stock, query)
            assert query.exception() is None
        finally:
            query.stop()
    assert values(stock) == sorted(expected)


def wait_for_committed_offsets(stock: Stock, query: StreamingQuery) -> None:
    """Wait for the end of a batch with all records.

    An interrupted batch is written again, because the sink is at least once.
    """
    end_offsets = stock.broker.topics["orders"].end_offsets
    eventually_equal(lambda: _noted(query), end_offsets, "end offsets of the last batch", TIMEOUT_S)


def _noted(query: StreamingQuery) -> dict[int, int]:
    """Partition -> offset of `orders`, as the last batch has put them down."""
    if query.lastProgress is None:
        return {}
    return {
        int(partition): offset
        for partition, offset in json.loads(query.lastProgress["sources"][0]["endOffset"])["orders"].items()
    }


@pytest.mark.usefixtures("topics")
def test_broker_restart_within_batch(stock: Stock) -> None:
    query = copy(stock, "1 hour")
    try:
        stock.broker.topics["orders"].produce("before")
        wait_for_values(stock, ["BEFORE"])
        stock.broker.restart()
        stock.broker.topics["orders"].produce("after")
        wait_for_values(stock, ["AFTER", "BEFORE"])
        assert query.exception() is None
    finally:
        query.stop()


def test_counts_by_key(stock: Stock) -> None:
    """With state, the shuffle's tasks run at the same time as the reading tasks."""
    for topic in ("orders", "copied"):
        stock.broker.create_topic(topic)
    name = "spark.sql.shuffle.partitions"
    before = stock.spark.conf.get(name)
    stock.spark.conf.set(name, str(SLOTS - 1))
    try:
        counts = stock.stream(OPTIONS).groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
        query = stock.to_topic(counts, {"topic": "copied"}).outputMode("update").trigger(realTime="1 hour").start()
        for number in range(1, 4):
            stock.broker.topics["orders"].produce("v", key="k")
            wait_for_values(stock, [str(earlier) for earlier in range(1, number + 1)])
        assert query.exception() is None
        query.stop()
    finally:
        stock.spark.conf.set(name, before or "")


def test_limits_of_spark(stock: Stock) -> None:
    """Spark's own limits: update mode only, no Python between source and sink, no foreachBatch."""
    stock.broker.create_topic("orders")
    stream = stock.stream(OPTIONS)
    with_python = stream.select(udf(lambda value: value, "binary")(stream.value).alias("value"))
    by_batch = stream.writeStream.foreachBatch(lambda frame, number: None).option(
        "checkpointLocation", stock.checkpoint("by-batch")
    )
    refused = {
        "OUTPUT_MODE": stock.to_topic(stream.select("value"), {"topic": "copied"}, "append").outputMode("append"),
        "ArrowEvalPython": stock.to_topic(with_python, {"topic": "copied"}, "python").outputMode("update"),
        "ForeachBatchSink": by_batch.outputMode("update"),
    }
    for reason, writer in refused.items():
        with pytest.raises(PySparkException, match=reason):
            writer.trigger(realTime=BATCH).start().awaitTermination(TIMEOUT_S)
