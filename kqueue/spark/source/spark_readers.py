"""The classes that Spark calls to read: batch and stream readers.

They are pickled to executors, so they hold options and no open resources.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.spark.checked_pickle import CheckedPickle
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import JsonObject
from kqueue.spark.source.columns import arrow_schema
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner
from kqueue.spark.source.offset_resolver import batch_ranges, splits
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.read_task import read_ranges
from kqueue.spark.source.reader_factory import open_first, refuse_if_all_unread
from kqueue.spark.source.record_reader import RecordReader, data_loss_handler, logger
from kqueue.spark.source.split_planner import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kqueue.spark.value_formats.decoder import ValueSchema


def columns(*, headers: bool, values: ValueSchema | None = None) -> StructType:
    """Return the columns of Spark's own Kafka source; with `values` theirs are decoded."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if values is None:
        return from_arrow_schema(arrow_schema(headers=headers), prefer_timestamp_ntz=True)
    schema = arrow_schema(headers=headers, value=values.reader().type, permissive=values.permissive)
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


class Split(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class _Reader(CheckedPickle):
    """Common to both readers. Raises: OptionError: the user declared other columns."""

    def __init__(self, options: SourceOptions, schema: StructType, values: ValueSchema | None = None) -> None:
        expected = columns(headers=options["includeHeaders"], values=values).simpleString()
        if schema.simpleString() != expected:
            raise OptionError(
                f"the columns are {expected}; what was declared is {schema.simpleString()}: leave the schema out"
            )
        self._options = options
        self._values = values

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield record batches, on an executor. Spark adds its own partition to an empty plan."""
        ranges = partition.ranges if isinstance(partition, Split) else ()
        with without_traceback():
            yield from read_ranges(self._options, ranges, self._values)


def _tell_unread(reader: RecordReader, ranges: Sequence[OffsetRange]) -> None:
    """Log what a query to the end leaves out. Raises: OptionError: that is all there is."""
    partitions = [one.topic_partition for one in ranges]
    if not any(one.size for one in ranges):
        refuse_if_all_unread(reader, partitions)
    unread = reader.unread(partitions)
    if unread:
        events.SPARK_RECORDS_UNREAD.log(logger, "%s", what=unread)


class KqueueReader(_Reader, DataSourceReader):
    """A batch query. It has no `pushFilters`: Spark rejects such readers unless a setting is on."""

    def partitions(self) -> list[Split]:
        """Return the splits of the query, on the driver."""
        with without_traceback(), contextlib.closing(open_first(self._options)) as reader:
            ranges = batch_ranges(self._options, reader, data_loss_handler(self._options.fail_on_data_loss))
            if self._options.ending.everywhere is not None:
                _tell_unread(reader, ranges)
            return [Split(one) for one in splits(self._options, ranges, reader)]


class KqueueStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. One instance stays on the driver while the query runs; copies go to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, values: ValueSchema | None = None) -> None:
        super().__init__(options, schema, values)
        self._open: MicroBatchPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    @property
    def _tracker(self) -> MicroBatchPlanner:
        if self._open is None:
            self._open = MicroBatchPlanner(self._options)
        return self._open

    def initialOffset(self) -> JsonObject:
        """Return where a new query begins."""
        with without_traceback():
            return self._tracker.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch: maxOffsetsPerTrigger."""
        limit = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current log ends as the end of the query."""
        with without_traceback():
            self._tracker.prepare_available_now()

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        """Return the end of the next batch.

        Spark calls this when the previous batch is done, one batch before it calls `commit`. So
        that batch is committed here.
        """
        with without_traceback():
            self._tracker.done(start)
            return self._tracker.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def reportLatestOffset(self) -> JsonObject | None:
        """Return the log ends of the last look, for Spark's progress report."""
        return self._tracker.report()

    def partitions(self, start: JsonObject, end: JsonObject) -> list[Split]:
        """Return the splits of a batch, on the driver."""
        with without_traceback():
            return [Split(ranges) for ranges in self._tracker.splits(start, end)]

    def commit(self, end: JsonObject) -> None:
        """Commit the processed offsets for `groupId`."""
        with without_traceback():
            self._tracker.done(end)

    def stop(self) -> None:
        """Close the reader on the driver."""
        if self._open is not None:
            self._open.close()
            self._open = None


class without_traceback:
    """Context manager: re-raises kqueue errors without traceback and causes.

    Spark prints both, and the message alone is sufficient.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KqueueError):
            raise error.with_traceback(None) from None
