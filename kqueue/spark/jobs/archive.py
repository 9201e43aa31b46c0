"""Archives records to Parquet files with all their columns."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kqueue.spark import transforms
from kqueue.spark.batches import Staged
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.jobs.archive_layout import Archive, ArchivedBatch
from kqueue.spark.jobs.parallelism import rows_per_task
from kqueue.spark.jobs.progress import ProgressListener, silent, watched
from kqueue.spark.offsets import Offsets, to_json
from kqueue.spark.source.options import SourceOptions, parse_options
from kqueue.spark.source.reader_factory import check_readable, open_first
from kqueue.spark.source.record_reader import RecordReader, data_loss_handler
from kqueue.spark.source.split_planner import rate_limited
from kqueue.spark.stores import Location, location_of, needs_spark, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 2 * 1024**3
FILE_BYTES = 128 * 1024**2
COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp", "timestampType", "topic", "date")
SCHEMA = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, offset bigint, "
    "timestamp timestamp, timestampType int, topic string, date date"
)
"""Columns of the files, with topic and date from the folder names.

Without a schema Spark would infer a topic named 2026-01-31 as a date.
"""
SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # what others can read too, for all years
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
COMMITTED = {"kafka.isolation.level": "read_committed"}
ORDER = ("topic", "date", "partition", "offset")
SPLITS = "minPartitions"
_CHOOSING = ("subscribe", "subscribepattern", "assign")


class ArchiveResult(NamedTuple):
    """The result of a run.

    rows: added records. batches, files: that hold them. rows_total: records of the whole archive.
    unread: what was left out of a folder in use; "": nothing.
    """

    rows: int
    batches: int
    files: int
    rows_total: int
    unread: str = ""


def archive(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str | Location,
    *,
    compression: str = "zstd",
    since_ms: int | None = None,
    until_ms: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    tell: ProgressListener = silent,
) -> ArchiveResult:
    """Append the new records of topics to the archive in `folder`, once each.

    `archive_layout` describes the folder, `kqueue.spark.batches` the commit of a batch.

    Columns: those of the source with headers, and `date`, the UTC day of the timestamp, null
    without one. Files are partitioned by topic and day, sorted by partition and offset, and about
    `FILE_BYTES` large if there are enough records.

    Args:
        source: options of the kqueue source. The default isolation level is read_committed: aborted
            transactions are left out, and open ones wait for their end.
        compression: zstd, snappy, gzip, lz4 or none.
        since_ms: partitions new to the archive begin with the first record at or after this time.
        until_ms: end before the first record at or after this time.
        folder: on a file system that the executors reach too, or a location in an object store.
        batch_bytes: approximate size of a batch, and so the work that a kill repeats.
    Raises: DataLost: records were deleted before they were archived, and failOnDataLoss is not
        false. PipelineFailed: a topic ends before its archived end (probably recreated).
        FolderInUse. OptionError, ClientError, StorageFailed, CorruptBatch.
    """
    source = {**COMMITTED, **source}
    options = parse_options(source, streaming=False)
    layout = Archive(spark, location_of(folder))
    if not layout.store.exists():
        check_readable(options)
    with layout.held():
        return _archive(spark, layout, options, source, since_ms, until_ms, _Sizes(compression, batch_bytes), tell)


def check(source: Mapping[str, str], folder: str | Location) -> None:
    """Raise what is wrong before Spark is needed: as `archive`."""
    options = parse_options({**COMMITTED, **source}, streaming=False)
    place = location_of(folder)
    check_readable(options, some=not needs_spark(place) and not open_store(place, None).exists())


class _Sizes(NamedTuple):
    compression: str
    batch_bytes: int


def _archive(
    spark: SparkSession,
    layout: Archive,
    options: SourceOptions,
    source: Mapping[str, str],
    since_ms: int | None,
    until_ms: int | None,
    sizes: _Sizes,
    tell: ProgressListener,
) -> ArchiveResult:
    rows = batches = files = 0
    done = layout.last() or ArchivedBatch(0, uuid.uuid4().hex)
    whole = layout.recover(done.number + 1)  # of a run that was killed when it had it all
    if whole is not None:
        done, rows, batches, files = whole, whole.rows, 1, len(whole.files)
    with contextlib.closing(open_first(options)) as reader:
        starts, ends = _bounds(options, reader, done.ends, since_ms, until_ms)
        steps = list(_steps(reader, starts, ends, sizes.batch_bytes))
        unread = reader.unread(ends) if until_ms is None else ""
    seen, total = 0, _size(starts, ends)
    for begin, end in steps:
        with watched(spark, "archive", seen, _size(begin, end), total, tell):
            staged = _stage(spark, _read(spark, source, begin, end), layout, done.number + 1, sizes)
        seen += _size(begin, end)
        done = layout.commit(staged, done.id, {**done.ends, **end}, done.rows_total + staged.rows)
        rows, batches, files = rows + done.rows, batches + 1, files + len(done.files)
    return ArchiveResult(rows, batches, files, done.rows_total, unread)


def _bounds(
    options: SourceOptions, reader: RecordReader, known: Offsets, since_ms: int | None, until_ms: int | None
) -> tuple[Offsets, Offsets]:
    """Return the start and end offsets to archive. Raises: as `archive`."""
    partitions = reader.find_partitions(options.topics, strict=True)
    earliest, latest = reader.earliest(partitions), reader.latest(partitions)
    if until_ms is not None:
        for topic_partition, offset in reader.offsets_for_times(dict.fromkeys(latest, until_ms)).items():
            latest[topic_partition] = (
                latest[topic_partition] if offset is None else min(offset, latest[topic_partition])
            )
    new = [topic_partition for topic_partition in latest if topic_partition not in known]
    since = reader.offsets_for_times(dict.fromkeys(new, since_ms)) if since_ms is not None and new else {}
    on_data_loss = data_loss_handler(options.fail_on_data_loss)
    starts = {}
    for topic_partition, end in latest.items():
        first = earliest.get(topic_partition, 0)
        if topic_partition not in known:
            at = since.get(topic_partition, first)  # None: no record is as late
            starts[topic_partition] = end if at is None else max(min(at, end), min(first, end))
            continue
        starts[topic_partition] = known[topic_partition]
        if known[topic_partition] < min(first, end):
            on_data_loss(
                f"{topic_partition}: offsets {known[topic_partition]} to {first - 1} were deleted before they "
                "were archived"
            )
            starts[topic_partition] = first
        elif known[topic_partition] > end:
            if until_ms is None:
                what = "it was deleted and recreated, or lost its end"
                raise PipelineFailed(
                    f"{topic_partition} ends at {end}, and is archived up to {known[topic_partition]}: {what}; "
                    "archive it to another folder"
                )
            starts[topic_partition] = end
    return starts, {topic_partition: max(end, starts[topic_partition]) for topic_partition, end in latest.items()}


def _steps(reader: RecordReader, starts: Offsets, ends: Offsets, batch_bytes: int) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield the bounds of each batch.

    Nothing if there are no new records, except one empty batch that records new empty partitions.
    """
    sizes = {
        topic_partition: ends[topic_partition] - starts[topic_partition]
        for topic_partition in ends
        if ends[topic_partition] > starts[topic_partition]
    }
    samples: dict[str, float] = {}
    for topic_partition in sizes:
        if topic_partition.topic not in samples:
            samples[topic_partition.topic] = reader.row_bytes(topic_partition, starts[topic_partition])
    total = sum(samples[topic_partition.topic] * size for topic_partition, size in sizes.items())
    limit = max(1, int(sum(sizes.values()) * batch_bytes / max(total, 1)))
    at = starts
    while at != ends:
        until = rate_limited(at, ends, limit)
        yield at, until
        at = until


def _size(begin: Offsets, end: Offsets) -> int:
    return sum(end[topic_partition] - begin[topic_partition] for topic_partition in end)


def _read(spark: SparkSession, source: Mapping[str, str], begin: Offsets, end: Offsets) -> DataFrame:
    """Return the records between these offsets."""
    partitions = [topic_partition for topic_partition in end if end[topic_partition] > begin[topic_partition]]
    size = _size(begin, end)
    source = {SPLITS: str(-(-size // rows_per_task(spark, size))), **source}
    assigned: dict[str, list[int]] = {}
    for topic_partition in partitions:
        assigned.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    options = {name: value for name, value in source.items() if name.lower() not in _CHOOSING}
    options |= {"assign": json.dumps(assigned), "includeHeaders": "true"}
    for name, bound in (("startingOffsets", begin), ("endingOffsets", end)):
        options[name] = json.dumps(to_json({topic_partition: bound[topic_partition] for topic_partition in partitions}))
    return transforms.dated(spark.read.format("kqueue").options(**options).load()).select(*COLUMNS)


def _stage(spark: SparkSession, frame: DataFrame, layout: Archive, number: int, sizes: _Sizes) -> Staged:
    """Write records where no reader looks."""
    with _settings(spark, {"spark.sql.adaptive.advisoryPartitionSizeInBytes": str(FILE_BYTES), **SETTINGS}):
        ordered = frame.hint("rebalance", "topic", "date").sortWithinPartitions(*ORDER)
        return layout.stage(ordered, number, sizes.compression)


@contextlib.contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply Spark settings during the block."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
