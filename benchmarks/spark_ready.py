"""A data source and a sink without cost. The source returns one record batch repeatedly, the sink
drops all batches: what both take is what Spark itself takes for any source and sink in Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 8 * 1024 * 1024
ROW_BYTES = 50  # of the other columns


class ReadyMade(DataSource):
    """``format("ready-made")``: `records` of `bytes_each`, in the columns of kqueue's source."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> StructType:
        from kqueue.spark.source.spark_readers import columns

        return columns(headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(int(self.options["records"]), int(self.options["bytes_each"]))


class _Reader(DataSourceReader):
    def __init__(self, records: int, bytes_each: int) -> None:
        self._records = records
        self._bytes_each = bytes_each

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = min(PIECE_BYTES // (self._bytes_each + ROW_BYTES), self._records)
        whole = _made(rows, self._bytes_each)
        for begin in range(0, self._records, rows):
            yield whole.slice(0, min(rows, self._records - begin))


class Dropping(DataSource):
    """``format("dropping")``: a sink that drops its rows."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _Dropper()


class _Dropper(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        deque(iterator, maxlen=0)
        return WriterCommitMessage()


def _made(rows: int, bytes_each: int) -> pa.RecordBatch:
    import pyarrow as pa

    from kqueue.spark.source.columns import arrow_schema

    same = {
        "key": None,
        "value": bytes(bytes_each),
        "topic": "ready-made",
        "partition": 0,
        "timestamp": 0,
        "timestampType": 0,
    }
    schema = arrow_schema(headers=False)
    columns = [
        pa.array(range(rows), field.type) if field.name == "offset" else pa.array([same[field.name]] * rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
