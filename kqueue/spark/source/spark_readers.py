"""What Spark calls: the readers of batch queries and of streams. They are sent to executors, so
they keep options and nothing open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from kqueue.base.errors import KqueueError
from kqueue.spark.errors import OptionError
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner
from kqueue.spark.source.offset_resolver import batch_ranges, splits
from kqueue.spark.source.offsets import JsonObject
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.read_task import read_ranges
from kqueue.spark.source.record_reader import data_loss_handler, open_reader
from kqueue.spark.source.split_planner import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


def columns(*, headers: bool) -> StructType:
    """Those of Spark's own Kafka source."""
    found = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
    )
    found = found.add("offset", LongType()).add("timestamp", TimestampType()).add("timestampType", IntegerType())
    return (
        found.add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
        if headers
        else found
    )


class Split(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class _Reader:
    """What both kinds share. Raises OptionError: the user declared other columns than there are."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        expected = columns(headers=options["includeHeaders"]).simpleString()
        if schema.simpleString() != expected:
            raise OptionError(
                f"the columns are {expected}; what was declared is {schema.simpleString()}: leave the schema out"
            )
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor. Of an empty plan Spark makes a partition of its own, which has no ranges."""
        ranges = partition.ranges if isinstance(partition, Split) else ()
        with without_traceback():
            yield from read_ranges(self._options, ranges)


class KqueueReader(_Reader, DataSourceReader):
    """A batch query. It has no `pushFilters`: Spark refuses readers that have one unless a setting
    is on.
    """

    def partitions(self) -> list[Split]:
        with without_traceback(), contextlib.closing(open_reader(self._options)) as reader:
            lost = data_loss_handler(self._options.fail_on_data_loss)
            return [
                Split(ranges) for ranges in splits(self._options, batch_ranges(self._options, reader, lost), reader)
            ]


class KqueueStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream; one of these stays on the driver as long as the query runs, others are made for the
    tasks.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._open: MicroBatchPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    @property
    def _tracker(self) -> MicroBatchPlanner:
        if self._open is None:
            self._open = MicroBatchPlanner(self._options)
        return self._open

    def initialOffset(self) -> JsonObject:
        with without_traceback():
            return self._tracker.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        with without_traceback():
            self._tracker.prepare_available_now()

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        """Spark asks for the next batch when the last one is done, which `commit` tells only one
        batch later.
        """
        with without_traceback():
            self._tracker.done(start)
            return self._tracker.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def reportLatestOffset(self) -> JsonObject | None:
        return self._tracker.report()

    def partitions(self, start: JsonObject, end: JsonObject) -> list[Split]:
        with without_traceback():
            return [Split(ranges) for ranges in self._tracker.splits(start, end)]

    def commit(self, end: JsonObject) -> None:
        with without_traceback():
            self._tracker.done(end)

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class without_traceback:
    """Errors of ours without the stack and the causes behind them: Spark shows all of it, and the
    message says what counts.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KqueueError):
            raise error.with_traceback(None) from None
