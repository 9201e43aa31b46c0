"""Ingests events into the tables bronze, silver, quarantine and gold.

One query reads the topics. For each batch it writes bronze, then silver and quarantine from bronze;
each batch of a table is written once (`kqueue.spark.tables`). After the last batch it adds the
closed windows to gold, computed from silver. Existing gold rows do not change.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from kqueue.base.clock import utc_now
from kqueue.spark import transforms
from kqueue.spark.event_schema import FLIGHTS, EventSchema, seconds_of
from kqueue.spark.jobs.parallelism import rows_per_task
from kqueue.spark.jobs.progress import Tell, await_end, silent
from kqueue.spark.jobs.sql_validation import check as check_sql
from kqueue.spark.jobs.sql_validation import no_records
from kqueue.spark.progress import LagListener
from kqueue.spark.session import isolated_session
from kqueue.spark.source.options import SourceOptions, parse_options
from kqueue.spark.source.reader_factory import check_readable, open_reader, unread
from kqueue.spark.stores import Location, location_of, needs_spark, open_store
from kqueue.spark.tables import Format, Table, Tables, check_tables, has_tables, open_tables
from kqueue.spark.value_formats.opening import find_schema
from kqueue.spark.value_formats.options import value_settings, without_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kqueue.spark.value_formats.decoder import ValueSchema

STAGES = ("bronze", "silver", "quarantine", "gold")
BEHIND = "behind"
BATCH_MAX = 1_000_000
"""Offsets per batch, unless the source options say otherwise: the most that a kill repeats."""
OURS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",  # what can't be computed is null, and no event can make a query fail
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # of the two, what others read and what has bounds
    # Checked records are cached until both tables are written. To compress them takes a quarter as
    # long as to check them.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
ROWS = "maxrecordsperpartition"
_KEPT = "gold.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IngestResult(NamedTuple):
    """The result of one run.

    Attributes:
        rows: rows added per stage.
        reasons: quarantined records by reason; all that can't be decoded have one.
        until: gold has all windows that end by this time; None: none is closed.
        unread: what was left out of a folder in use; "": nothing.
    """

    rows: dict[str, int]
    reasons: Counter[str]
    until: datetime | None
    unread: str = ""


def ingest(
    spark: SparkSession,
    source: Mapping[str, str],
    folder: str | Location,
    *,
    schema: EventSchema = FLIGHTS,
    format: Format = "parquet",
    finish: bool = False,
    tell: Tell = silent,
    now: datetime | None = None,
) -> IngestResult:
    """Ingest new records into the tables ``bronze``, ``silver``, ``quarantine`` and ``gold``.

    The next run continues after it, also after a kill, and every record counts once.

    Args:
        source: options of the kqueue source. By those of values (`valueFormat`) events are
            decoded; bronze and quarantine have the bytes.
        folder: on a file system that the executors share with the driver, or a location in an
            object store with a folder for the progress.
        schema: the event schema.
        format: parquet; delta: the same files with Delta's log; iceberg: with a catalog in SQLite.
        finish: close the last windows too; later events of these windows are then not counted.
        tell: called with a stage and its number of rows so far, and with `BEHIND` and the number of
            records that are not read yet, as of the last batch; from any thread.
        now: the current time, which identifies events from the future.
    Raises: OptionError: the schema has invalid SQL, or the tables were created with other settings.
        SchemaRefused, RegistryFailed: values have no schema. FolderInUse: another run holds the
        folder. ExtraNeeded: a package is missing. What Spark raises.
    """
    own = isolated_session(spark, OURS)
    check_sql(own, schema)
    values = _values(source)
    if values is not None:
        transforms.checked(transforms.bronze(no_records(own)), schema, values)
    source = without_values(source)
    place = location_of(folder)
    check(source, place, schema=schema, format=format)
    given = _given(source)
    options = parse_options(given, streaming=True)
    if not any(name.lower() == ROWS for name in given):
        rows = min(options["maxOffsetsPerTrigger"], _size(options))
        given[ROWS] = str(rows_per_task(own, rows))
    records = own.readStream.format("kqueue").options(**given).load()
    with open_tables(place, schema, format, source, own) as tables:
        run = _Run(own, tables, schema, values, tell)
        with _watched(own, given, tell):
            run.take_in(records)
        until = run.close_windows(now or utc_now(), finish=finish)
    return IngestResult(run.rows, run.reasons, until, unread(options))


def check(
    source: Mapping[str, str], folder: str | Location, *, schema: EventSchema = FLIGHTS, format: Format = "parquet"
) -> None:
    """Raise what is wrong before Spark is needed: as `ingest`, of all but the schema's SQL."""
    _values(source)
    source = without_values(source)
    place = location_of(folder)
    options = parse_options(_given(source), streaming=True)
    check_tables(place, schema, format, source)
    if not needs_spark(place):
        open_store(place, None).exists()
    if not has_tables(place):
        check_readable(options)


def _values(source: Mapping[str, str]) -> ValueSchema | None:
    settings = value_settings(source)
    return None if settings is None else find_schema(settings)


def _given(source: Mapping[str, str]) -> dict[str, str]:
    return {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH_MAX), **source}


def _size(options: SourceOptions) -> int:
    """Return the offsets of all records that there are."""
    with contextlib.closing(open_reader(options)) as reader:
        partitions = reader.find_partitions(options.topics, strict=False)
        earliest, latest = reader.earliest(partitions), reader.latest(partitions)
    return sum(end - earliest.get(topic_partition, end) for topic_partition, end in latest.items())


@contextlib.contextmanager
def _watched(spark: SparkSession, source: Mapping[str, str], tell: Tell) -> Iterator[None]:
    """Tell how many records are not read yet."""
    if tell is silent:
        yield
        return
    lag = LagListener(source, tell=lambda lag_of_query: tell(BEHIND, lag_of_query.records))
    spark.streams.addListener(lag)
    try:
        yield
    finally:
        spark.streams.removeListener(lag)
        lag.close()


class _Run:
    """One run on locked tables."""

    def __init__(
        self, spark: SparkSession, tables: Tables, schema: EventSchema, values: ValueSchema | None, tell: Tell
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._schema = schema
        self._values = values
        self._tell = tell
        bronze = transforms.bronze(no_records(spark))
        silver = transforms.silver(bronze, schema)
        made = (bronze, silver, transforms.quarantine(bronze, schema), transforms.gold(silver, schema))
        self._table: dict[str, Table] = {
            name: tables.table(name, columns) for name, columns in zip(STAGES, made, strict=True)
        }
        self.rows = dict.fromkeys(STAGES, 0)
        self.reasons: Counter[str] = Counter()

    def take_in(self, records: DataFrame) -> None:
        """Write all current records to bronze, silver and quarantine."""
        failures: list[Exception] = []

        def one_batch(frame: DataFrame, batch: int) -> None:
            try:
                self._take_batch(frame, batch)
            except Exception as error:  # Spark would wrap it in words of its own
                failures.append(error)
                raise

        writer = transforms.bronze(records).writeStream.queryName("kqueue-ingest").foreachBatch(one_batch)
        writer = writer.option("checkpointLocation", str(self._tables.checkpoints / "stream"))
        query = writer.trigger(availableNow=True).start()
        try:
            await_end(query)
        except Exception:
            if failures:
                raise failures[0] from None
            raise
        finally:
            query.stop()

    def _take_batch(self, frame: DataFrame, batch: int) -> None:
        self._write("bronze", frame, batch)
        taken = self._table["bronze"].read_batch(frame.sparkSession, batch)
        # Both tables are of the same checked records: without the cache all would be parsed again.
        checked = self._slim(transforms.checked(taken, self._schema, self._values)).persist()
        try:
            self._write("silver", transforms.valid(checked, self._schema), batch)
            self._write("quarantine", transforms.invalid(checked, self._schema), batch)
        finally:
            checked.unpersist()
        for reason, count in self._table["quarantine"].tally(batch, "reason").items():
            is_undecoded = reason.startswith(transforms.UNDECODED)
            self.reasons[transforms.UNDECODED if is_undecoded else reason] += count

    def _slim(self, checked: DataFrame) -> DataFrame:
        """Leave out of valid records what only quarantine has."""
        return checked.withColumns(
            {name: F.when(F.col("reason").isNotNull(), F.col(name)) for name in ("key", "value")}
        )

    def close_windows(self, now: datetime, *, finish: bool) -> datetime | None:
        """Add closed windows to gold; return the end of the last one.

        That time is stored before gold is written, so that a run after a kill writes the same
        windows.
        """
        kept = self._tables.read_json(_KEPT)
        if kept is not None and not self._table["gold"].has(kept["batch"]):
            self._write_gold(**kept)
        after_us = None if kept is None else kept["until_us"]
        until_us = self._over_us(after_us, now, finish=finish)
        if until_us is None or (after_us is not None and until_us <= after_us):
            return _moment(after_us)
        kept = {"batch": 0 if kept is None else kept["batch"] + 1, "after_us": after_us, "until_us": until_us}
        self._tables.keep_json(_KEPT, kept)
        self._write_gold(**kept)
        return _moment(until_us)

    def _over_us(self, after_us: int | None, now: datetime, *, finish: bool) -> int | None:
        """Return the end of the last closed window in µs since 1970; None without events.

        A window is closed once an event is later than its end by the lateness. An event from the
        future counts with the time of its record or the current time, whichever is earlier.
        Otherwise one wrong clock would close all windows.
        """
        step, lateness = (seconds_of(text, "") * 1_000_000 for text in (self._schema.window, self._schema.lateness))
        now_us = (now - _EPOCH) // timedelta(microseconds=1)
        event_us, told_us = F.unix_micros("event_time"), F.unix_micros("timestamp")
        silver = self._events(after_us)
        passed, last = silver.agg(
            F.max(F.least(event_us, told_us, F.lit(now_us))), F.max(F.when(event_us <= now_us, event_us))
        ).collect()[0]  # fmt: skip
        if passed is None:
            return None
        until = (passed - lateness) // step * step
        return max(until, (last // step + 1) * step) if finish and last is not None else int(until)

    def _events(self, since_us: int | None) -> DataFrame:
        silver = self._table["silver"].read(self._spark)
        return silver if since_us is None else silver.where(F.col("event_time") >= _at(since_us))

    def _write_gold(self, batch: int, after_us: int | None, until_us: int) -> None:
        """Write the windows that end in (after_us, until_us].

        A repeated event in a later window is recognized by its first occurrence.
        """
        lateness_us = seconds_of(self._schema.lateness, "") * 1_000_000
        events = self._events(None if after_us is None else after_us - lateness_us)
        counted = transforms.gold(
            transforms.distinct(transforms.watermarked(events, self._schema), self._schema), self._schema
        )
        over = counted.where(F.col("end") <= _at(until_us))
        self._write("gold", over if after_us is None else over.where(F.col("end") > _at(after_us)), batch)

    def _write(self, stage: str, frame: DataFrame, batch: int) -> None:
        self._tell(stage, self.rows[stage])
        self.rows[stage] += self._table[stage].write(frame, batch)
        self._tell(stage, self.rows[stage])


def _at(us: int) -> Column:
    return F.timestamp_micros(F.lit(us))


def _moment(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
