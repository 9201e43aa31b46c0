"""Spark's `format("kafka")` as the tests use it: against one broker, and compared with what that
broker holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import kqueue
from kqueue.embedded.inspection.records import Record

TIMEOUT_S = 120
"""What ends a hang."""
READ_TIMEOUT_MS = 20_000  # a task that finds no record where it was told of one says so before the test is out of time
Headers = tuple[tuple[str, bytes | None], ...]
Seen = tuple[str, int, int, int, bytes | None, bytes | None, Headers]
"""Topic, partition, offset, time in ms, key, value, headers."""


def offsets_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Offsets (or times) by topic and partition in the JSON that the connector takes; -2 earliest,
    -1 latest.
    """
    return json.dumps(
        {
            topic: {str(partition): offset for partition, offset in partitions.items()}
            for topic, partitions in offsets.items()
        }
    )


def held(records: Iterable[Record]) -> list[Seen]:
    """What the broker says is there, in the form of `Stock.seen`."""
    rows = [
        (one.topic, one.partition, one.offset, one.timestamp or 0, one.key, one.value, one.headers) for one in records
    ]
    return sorted(rows, key=lambda row: row[:3])


class Stock:
    """The connector, aimed at `broker`; checkpoints are kept in `folder`. Options go by their
    names: ``{"subscribe": "orders"}``.
    """

    def __init__(self, spark: SparkSession, broker: kqueue.Broker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self._folder = folder

    def _options(self, options: Mapping[str, object]) -> dict[str, str]:
        given = {name: str(value) for name, value in options.items()}
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "kafkaConsumer.pollTimeoutMs": str(READ_TIMEOUT_MS),
            **given,
        }

    # --- batch

    def read(self, options: Mapping[str, object]) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._options(options)).load()

    def seen(self, options: Mapping[str, object]) -> list[Seen]:
        """Return all records of a batch read with headers, by topic, partition and offset."""
        frame = self.read({"includeHeaders": "true", **options})
        columns = ("topic", "partition", "offset", "unix_millis(timestamp)", "key", "value", "headers")
        rows = frame.selectExpr(*columns).collect()
        return sorted(
            ((*row[:4], _bytes(row[4]), _bytes(row[5]), _headers(row[6])) for row in rows), key=lambda row: row[:3]
        )

    def values(self, options: Mapping[str, object]) -> list[str]:
        """The values alone, as text, in order of topic, partition and offset."""
        return [(value or b"").decode() for *_, value, _headers in self.seen(options)]

    def frame(self, rows: Iterable[tuple[Any, ...]], schema: str) -> DataFrame:
        return self.spark.createDataFrame(list(rows), schema)

    def write(self, frame: DataFrame, options: Mapping[str, object]) -> None:
        frame.write.format("kafka").options(**self._options(options)).save()

    # --- streaming

    def stream(self, options: Mapping[str, object]) -> DataFrame:
        return self.spark.readStream.format("kafka").options(**self._options(options)).load()

    def to_topic(
        self, frame: DataFrame, options: Mapping[str, object], checkpoint: str = "checkpoint"
    ) -> DataStreamWriter:
        """A query that writes to Kafka, not started yet."""
        writer = frame.writeStream.format("kafka").options(**self._options(options))
        return writer.option("checkpointLocation", self.checkpoint(checkpoint))

    def to_table(self, frame: DataFrame, name: str, checkpoint: str = "checkpoint") -> DataStreamWriter:
        """A query that adds what it finds, as text, to a Parquet folder, not started yet; see
        `table`.
        """
        wanted = frame.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        writer = wanted.writeStream.format("parquet").option("path", str(self._folder / name))
        return writer.option("checkpointLocation", self.checkpoint(checkpoint))

    def table(self, name: str) -> list[tuple[str, int, int, str]]:
        """Topic, partition, offset and value of what `to_table` has written so far, in order."""
        frame = self.spark.read.schema("topic STRING, partition INT, offset LONG, value STRING").parquet(
            str(self._folder / name)
        )
        return sorted(tuple(row) for row in frame.collect())

    def drain(self, frame: DataFrame, name: str, checkpoint: str = "checkpoint") -> StreamingQuery:
        """Write all current records to a Parquet folder; return the finished query."""
        query = self.to_table(frame, name, checkpoint).trigger(availableNow=True).start()
        finish(query)
        return query

    def checkpoint(self, name: str) -> str:
        return str(self._folder / name)


def finish(query: StreamingQuery, within_s: float = TIMEOUT_S) -> None:
    """Wait for a query that ends by itself. Raises: StreamingQueryException: it failed."""
    if not query.awaitTermination(within_s):
        query.stop()
        raise AssertionError(f"the query did not end within {within_s} s: {query.lastProgress}")


def rows_by_batch(query: StreamingQuery) -> list[int]:
    """How many records each micro-batch that had any brought."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _headers(headers: Any) -> Headers:
    return tuple((row["key"], _bytes(row["value"])) for row in headers or ())
