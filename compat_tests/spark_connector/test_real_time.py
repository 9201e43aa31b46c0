"""Real-Time Mode (Spark 4.1 and later, in PySpark from 4.3): long-running tasks pass records on at
once and note their offsets at times.

Every partition needs a task for as long as a batch lasts, so one that finds no free slot waits for
ever.
"""

from __future__ import annotations

import json
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery
from pyspark.version import __version__ as spark_version

from compat_tests.spark_connector.connector import SLOTS
from compat_tests.spark_connector.stock import TIMEOUT_S, Stock, until

VERSION = tuple(int(part) for part in spark_version.split(".")[:2])
pytestmark = pytest.mark.skipif(VERSION < (4, 3), reason="PySpark has trigger(realTime=...) from 4.3")
BATCH = "5 seconds"
LATE_S = 2.0
OPTIONS = {"subscribe": "orders", "startingOffsets": "earliest"}


def copy(stock: Stock, batch: str = BATCH) -> StreamingQuery:
    """A stateless query from `orders` to `copied`."""
    stream = stock.stream(OPTIONS).selectExpr("key", "UPPER(CAST(value AS STRING)) AS value", "partition")
    return (
        stock.to_topic(stream.where("value NOT LIKE 'SKIP%'"), {"topic": "copied"})
        .outputMode("update")
        .trigger(realTime=batch)
        .start()
    )


def values(stock: Stock) -> list[str]:
    return sorted((one.value or b"").decode() for one in stock.broker.topics["copied"].records())


def until_there(stock: Stock, expected: list[str]) -> None:
    """Wait until these have come through, and nothing else."""
    until(lambda: values(stock) == sorted(expected), f"{expected} in the copy")


@pytest.fixture
def topics(stock: Stock) -> None:
    for topic in ("orders", "copied"):
        stock.broker.create_topic(topic, SLOTS)


@pytest.mark.usefixtures("topics")
def test_records_come_through_while_their_batch_is_under_way(stock: Stock) -> None:
    """One batch of an hour: what comes through does not wait for its end."""
    stock.broker.topics["orders"].produce_all(["a", "b", "skip"])
    query = copy(stock, "1 hour")
    try:
        until_there(stock, ["A", "B"])
        took = []
        for number in range(20):
            began = time.perf_counter()
            stock.broker.topics["orders"].produce(f"n{number}")
            until_there(stock, ["A", "B", *(f"N{earlier}" for earlier in range(number + 1))])
            took.append(time.perf_counter() - began)
        assert sorted(took)[len(took) // 2] < LATE_S
        assert query.lastProgress is None
        assert query.exception() is None
    finally:
        query.stop()


@pytest.mark.usefixtures("topics")
def test_batches_follow_each_other_and_a_restart_goes_on(stock: Stock) -> None:
    expected: list[str] = []
    for run in range(2):
        query = copy(stock)
        try:
            for number in range(3):
                stock.broker.topics["orders"].produce(f"r{run} {number}")
                expected.append(f"R{run} {number}")
                until_there(stock, expected)
            until_noted(stock, query)
            assert query.exception() is None
        finally:
            query.stop()
    assert values(stock) == sorted(expected)


def until_noted(stock: Stock, query: StreamingQuery) -> None:
    """Wait for the end of a batch that has all records: one that is cut short is written again, the
    sink being at-least-once.
    """
    until(lambda: _noted(query) == stock.broker.topics["orders"].end_offsets, "the end of a batch that has them all")


def _noted(query: StreamingQuery) -> dict[int, int]:
    """Partition -> offset of `orders`, as the last batch has put them down."""
    if query.lastProgress is None:
        return {}
    return {
        int(partition): offset
        for partition, offset in json.loads(query.lastProgress["sources"][0]["endOffset"])["orders"].items()
    }


@pytest.mark.usefixtures("topics")
def test_a_broker_that_restarts_within_a_batch(stock: Stock) -> None:
    query = copy(stock, "1 hour")
    try:
        stock.broker.topics["orders"].produce("before")
        until_there(stock, ["BEFORE"])
        stock.broker.restart()
        stock.broker.topics["orders"].produce("after")
        until_there(stock, ["AFTER", "BEFORE"])
        assert query.exception() is None
    finally:
        query.stop()


def test_counts_by_key(stock: Stock) -> None:
    """With state: the shuffle's tasks run beside those that read."""
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
            until_there(stock, [str(earlier) for earlier in range(1, number + 1)])
        assert query.exception() is None
        query.stop()
    finally:
        stock.spark.conf.set(name, before or "")


def test_spark_itself_has_limits(stock: Stock) -> None:
    """So that nobody takes them for the broker's: update mode alone, no Python between source and
    sink, no foreachBatch.
    """
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
