"""The data source ``format("kqueue")`` as Spark sees it, for reading and for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from kqueue.spark.checked_pickle import CheckedPickle
from kqueue.spark.source.options import SourceOptions, parse_options
from kqueue.spark.source.spark_readers import KqueueReader, KqueueStreamReader, columns, without_traceback
from kqueue.spark.value_formats.options import value_settings

if TYPE_CHECKING:
    from kqueue.spark.value_formats.contract import ValueSettings
    from kqueue.spark.value_formats.decoder import ValueSchema

NAME = "kqueue"


class KqueueDataSource(CheckedPickle, DataSource):
    """Spark creates one per query and pickles it between processes."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the source.

        Spark calls this before it tells whether the query is a stream.
        """
        headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return columns(headers=headers, values=self._values())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises: OptionError."""
        return KqueueReader(self._parsed(streaming=False), schema, self._values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Raises: OptionError."""
        return KqueueStreamReader(self._parsed(streaming=True), schema, self._values())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch. Raises: OptionError, RowRefused, ClientError."""
        from kqueue.spark.sink.writer import batch_writer

        with without_traceback():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a stream. Raises: OptionError, RowRefused, ClientError."""
        from kqueue.spark.sink.writer import stream_writer

        with without_traceback():
            return stream_writer(self.options, schema, overwrite)

    def _parsed(self, *, streaming: bool) -> SourceOptions:
        with without_traceback():
            return parse_options(self.options, streaming=streaming)

    def _values(self) -> ValueSchema | None:
        """Return the schema of values, found once: a registry may have another one by then."""
        if not hasattr(self, "_value_schema"):
            with without_traceback():
                settings = value_settings(self.options)
                self._value_schema = None if settings is None else _schema_of(settings)
        return self._value_schema


def _schema_of(settings: ValueSettings) -> ValueSchema:
    from kqueue.spark.value_formats.opening import find_schema

    return find_schema(settings)
