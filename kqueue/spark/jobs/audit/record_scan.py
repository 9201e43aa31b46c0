"""The pass over all records, run by Spark.

    records -> slim: partition, offset, time, content hash, … -> seen: the same rows, and between
        them summaries
            -> groups of rows with equal partition, time and hash -> summaries, and the number of
                duplicates

Spark groups the hashes and spills what exceeds memory. Nothing else grows with the number of
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.jobs.audit.partition_summary import Columns, PartitionSummary, from_json, summarize
from kqueue.spark.source.split_planner import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SEEN = "partition_number int, ms bigint, content bigint, offset bigint, summary string"
ROWS = (
    "topic string, partition int, offset bigint, ms bigint, content bigint, "
    "key_hash bigint, key_bytes int, value_bytes int"
)


class DuplicateRecords(NamedTuple):
    """Duplicates in a partition.

    rows: records equal to an earlier one. first, again: offsets of the first duplicated record and
    of its last copy.
    """

    rows: int
    first: int
    again: int


class ScanResult(NamedTuple):
    """The summaries and the duplicates of each partition that has any."""

    summaries: Mapping[TopicPartition, list[PartitionSummary]]
    repeated: Mapping[TopicPartition, DuplicateRecords]


class PlannedPartition(NamedTuple):
    """A partition to read: its number, its offsets, and the offsets at which tasks may begin."""

    number: int
    range: OffsetRange
    edges: tuple[int, ...]


def scan_records(records: DataFrame, ranges: Sequence[OffsetRange], rows_max: int) -> ScanResult:
    """Scan records.

    Args:
        records: with headers.
        ranges: what the records were read from, one range per partition.
        rows_max: the maxRecordsPerPartition of that read.
    """
    plan = {
        one.topic_partition: PlannedPartition(number, one, _edges(one, rows_max)) for number, one in enumerate(ranges)
    }
    partitions = [one.topic_partition for one in ranges]
    summaries: dict[TopicPartition, list[PartitionSummary]] = {}
    repeated: dict[TopicPartition, DuplicateRecords] = {}
    for row in group_equal(slim(records).mapInArrow(summarizing(plan), SEEN)).collect():
        topic_partition = partitions[row.partition_number]
        if row.summary is not None:
            summaries.setdefault(topic_partition, []).append(from_json(row.summary))
        else:
            repeated[topic_partition] = DuplicateRecords(row.repeated, row.example["first"], row.example["again"])
    return ScanResult(summaries, repeated)


def slim(records: DataFrame) -> DataFrame:
    """Return records as numbers only, as `ROWS`.

    `content` is a hash of key, value, headers and time; null differs from empty.
    """
    nulls = [F.col(name).isNull() for name in ("key", "value")]
    return records.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("ms"),
        F.xxhash64("key", "value", "headers", "timestamp", *nulls).alias("content"),
        F.when(F.col("key").isNotNull(), F.xxhash64("key")).alias("key_hash"),
        F.octet_length("key").alias("key_bytes"),
        F.octet_length("value").alias("value_bytes"),
    )


def _edges(one: OffsetRange, rows_max: int) -> tuple[int, ...]:
    """Return the offsets at which the source cuts a partition (`split_planner`).

    Offsets between two pieces belong to another task and are not missing.
    """
    pieces = -(-one.size // rows_max)
    return tuple(one.start + one.size * number // pieces for number in range(1, pieces))


def summarizing(
    plan: Mapping[TopicPartition, PlannedPartition],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`: `ROWS` to `SEEN`.

    After a task's rows it yields a summary for each piece of a partition.
    """

    def seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        now: tuple[tuple[TopicPartition, int], PartitionSummary] | None = None
        for batch in batches:
            for where, rows in _runs(batch, plan):
                number, one, _ = plan[where[0]]
                summary = summarize(_columns(rows), one.start, one.end)
                if now is not None and now[0] == where and now[1].last < summary.first:
                    now = where, now[1].plus(summary)
                else:
                    if now is not None:
                        yield _summary(plan[now[0][0]].number, now[1])
                    now = where, summary
                yield _rows(number, rows)
        if now is not None:
            yield _summary(plan[now[0][0]].number, now[1])

    return seen


def group_equal(seen: DataFrame) -> DataFrame:
    """Group equal rows.

    Returns: partition_number and summary; or, with a null summary, repeated (number of duplicates
        of the partition) and an example of two equal offsets.
    """
    groups = seen.groupBy("partition_number", "ms", "content", "summary").agg(
        F.count("*").alias("rows"), F.min("offset").alias("first"), F.max("offset").alias("again")
    )
    repeated_groups = groups.where("rows > 1 or summary is not null").groupBy("partition_number", "summary")
    return repeated_groups.agg(
        F.sum(F.col("rows") - 1).alias("repeated"), F.min(F.struct("first", "again")).alias("example")
    )


def _runs(
    batch: pa.RecordBatch, plan: Mapping[TopicPartition, PlannedPartition]
) -> Iterator[tuple[tuple[TopicPartition, int], pa.RecordBatch]]:
    """Yield consecutive rows of one partition and piece."""
    import numpy as np
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    topic, partition = batch.column("topic"), batch.column("partition")
    changed = pc.or_(pc.not_equal(topic[1:], topic[:-1]), pc.not_equal(partition[1:], partition[:-1]))
    edges = [0, *(np.flatnonzero(changed.to_numpy(zero_copy_only=False)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        topic_partition = TopicPartition(topic[begin].as_py(), partition[begin].as_py())
        offset = batch.column("offset")[begin:end].to_numpy(zero_copy_only=False)
        piece: Any = np.searchsorted(np.array(plan[topic_partition].edges, np.int64), offset, side="right")
        cuts = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), end - begin]
        for left, right in pairwise(cuts):
            yield (topic_partition, int(piece[left])), batch.slice(begin + left, right - left)


def _columns(rows: pa.RecordBatch) -> Columns:
    import numpy as np
    import pyarrow.compute as pc

    def whole(name: str) -> np.ndarray:
        is_whole: np.ndarray = (
            pc.fill_null(rows.column(name), 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        )
        return is_whole

    def there(name: str) -> np.ndarray:
        is_valid: np.ndarray = rows.column(name).is_valid().to_numpy(zero_copy_only=False)
        return is_valid

    return Columns(
        whole("offset"),
        whole("ms"),
        whole("key_hash"),
        whole("key_bytes"),
        whole("value_bytes"),
        there("ms"),
        there("key_hash"),
        there("value_bytes"),
    )


def _rows(number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    count = rows.num_rows
    topic_partition = pa.array([number], pa.int32()).take(pa.nulls(count, pa.int8()).fill_null(0))
    columns = [
        topic_partition,
        rows.column("ms"),
        rows.column("content"),
        rows.column("offset"),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["partition_number", "ms", "content", "offset", "summary"])


def _summary(number: int, summary: PartitionSummary) -> pa.RecordBatch:
    import pyarrow as pa

    row = {
        "partition_number": number,
        "ms": None,
        "content": summary.first,
        "offset": summary.first,
        "summary": summary.to_json(),
    }
    types = (pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.string())
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip(row.values(), types, strict=True)], names=list(row)
    )
