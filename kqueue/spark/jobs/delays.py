"""Delays per airport and hour: a streaming query with a watermark, and a quarantine query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kqueue.spark import transforms
from kqueue.spark.errors import PipelineFailed, error_summary
from kqueue.spark.jobs.delay_results import AirportHour, DelayProgress, QuarantinedRecord
from kqueue.spark.session import isolated_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCH_RECORDS_MAX = 20_000
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # and so many folders of state
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",  # else hours that are done wait for the next record
}


class DelayQueries:
    """The two running queries over one topic; a context manager that stops them.

    Both read the topic from its beginning and write Parquet to ``gold`` and ``quarantine`` under
    `folder`, one file per micro-batch. An event must not follow another one that happened more than
    `LATENESS_MS` later, unless it is late by its own time. Spark reads partitions in parallel, not
    in step, so a query that catches up needs a topic with one partition.
    """

    def __init__(self, spark: SparkSession, source: Mapping[str, str], folder: Path) -> None:
        self._gold = _Gold(folder / "gold")
        self._quarantine = _Quarantine(folder / "quarantine")
        own = isolated_session(spark, SETTINGS)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX), **source}
        bronze = transforms.bronze(own.readStream.format("kqueue").options(**options).load())
        watermarked = transforms.watermarked(transforms.silver(bronze))
        self._queries: list[_Query] = []
        try:
            for table, frame in (
                (self._gold, transforms.gold(transforms.distinct(watermarked))),
                (self._quarantine, transforms.quarantine(bronze)),
            ):
                self._queries.append(_Query(frame, table, folder))
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> DelayQueries:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop both queries."""
        for query in self._queries:
            query.stop()

    def look(self) -> DelayProgress:
        """Return the progress. Raises: PipelineFailed: a query failed, with Spark's message."""
        for query in self._queries:
            query.look()
        gold = self._queries[0]
        return DelayProgress(
            gold.records,
            gold.watermark_ms,
            self._gold.count,
            len(self._gold.starts),
            dict(self._quarantine.reasons),
            gold.dropped,
        )

    def has_done(self, end: int, watermark_ms: int) -> bool:
        """Return whether, at the last `look`, both queries were done up to these bounds.

        Args:
            end: the sum of offsets that both queries must have read.
            watermark_ms: the watermark that gold must have reached.
        """
        gold = self._queries[0]
        return all(query.end >= end for query in self._queries) and (gold.watermark_ms or 0) >= watermark_ms

    def gold(self) -> list[AirportHour]:
        """Return the rows of gold, by hour and airport."""
        rows = self._gold.rows()
        return sorted((_airport_hour(row) for row in rows), key=lambda hour: (hour.start_ms, hour.origin))

    def quarantine(self) -> list[QuarantinedRecord]:
        """Return the quarantined records, by position."""
        rows = self._quarantine.rows()
        return sorted(
            QuarantinedRecord(row["partition"], row["offset"], _ms(row["timestamp"]), row["value"], row["reason"])
            for row in rows
        )


class _Table:
    """A folder with one Parquet file per micro-batch. A repeated batch replaces its file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batch = -1
        folder.mkdir(parents=True)

    def take(self, frame: DataFrame, batch: int) -> None:
        """For `foreachBatch`: collect the few rows on the driver, so one job does everything."""
        rows = frame.toArrow()
        if rows.num_rows:
            pq.write_table(rows, self.folder / f"{batch:06}.parquet")
        if batch > self.batch:
            self.batch = batch
            self.note(rows)

    def note(self, rows: pa.Table) -> None:
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        files = sorted(self.folder.glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


class _Gold(_Table):
    count = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.starts: set[datetime] = set()

    def note(self, rows: pa.Table) -> None:
        self.count += rows.num_rows
        self.starts.update(rows.column("start").to_pylist())


class _Quarantine(_Table):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reasons: Counter[str] = Counter()

    def note(self, rows: pa.Table) -> None:
        for count in pc.value_counts(rows.column("reason")).to_pylist():
            self.reasons[count["values"]] += count["counts"]


class _Query:
    """A query and its total progress; Spark reports each micro-batch separately.

    records: records read. end: sum of end offsets. dropped: events later than the watermark.
    """

    def __init__(self, frame: DataFrame, table: _Table, folder: Path) -> None:
        name = table.folder.name
        self.records = self.end = self.dropped = 0
        self.watermark_ms: int | None = None
        self._batch = -1
        writer = frame.writeStream.queryName(f"kqueue-{name}").option(
            "checkpointLocation", str(folder / "checkpoints" / name)
        )
        self._query: StreamingQuery = writer.foreachBatch(table.take).start()

    def look(self) -> None:
        failure = self._query.exception()
        if failure is not None:
            raise PipelineFailed(error_summary(failure))
        last = self._query.lastProgress
        if last is None or last.batchId <= self._batch:
            return
        for progress in [last] if last.batchId == self._batch + 1 else self._query.recentProgress:
            progress_json = json.loads(progress.json)
            if (
                progress_json["batchId"] > self._batch and "addBatch" in progress_json["durationMs"]
            ):  # without, it says that there was none
                self._note(progress_json)

    def _note(self, progress_json: dict[str, Any]) -> None:
        self._batch = progress_json["batchId"]
        self.records += progress_json["numInputRows"]
        self.dropped += sum(operator["numRowsDroppedByWatermark"] for operator in progress_json["stateOperators"])
        (source,) = progress_json["sources"]
        self.end = sum(
            sum(offsets.values()) for topic, offsets in source["endOffset"].items() if not topic.startswith("@")
        )
        watermark = progress_json.get("eventTime", {}).get("watermark")
        if watermark is not None:
            watermark_ms = _ms(datetime.fromisoformat(watermark))
            self.watermark_ms = watermark_ms or None  # 1970 until there is one

    def stop(self) -> None:
        self._query.stop()


def _airport_hour(row: Mapping[str, Any]) -> AirportHour:
    return AirportHour(
        row["origin"],
        _ms(row["start"]),
        row["flights"],
        row["cancelled"],
        row["delayed"],
        row["delay_avg_min"],
        row["delay_max_min"],
    )


def _ms(time: datetime) -> int:
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
