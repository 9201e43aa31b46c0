"""One table: a folder with one folder per batch, ``batch=3/date=2013-01-01/part-….parquet``.

`kqueue.spark.batches` makes the batches. A batch that Spark repeats, because the driver was killed
before Spark recorded it, is already there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pyarrow.parquet as pq

from kqueue.spark.batches import Batch, Batches, Staged
from kqueue.spark.batches.batches import TableLog
from kqueue.spark.batches.readers import CHECKPOINTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kqueue.spark.stores import Store

# the date of records without a valid time: pandas cannot read partition folders with a null date
NO_DATE = "1970-01-01"
DATE = "date"


class Log(TableLog, Protocol):
    """The log of a table's format: Delta's, Iceberg's. by: the columns of partition folders."""

    by: Sequence[str]

    def has(self, batch: int) -> bool:
        """Return whether the log has this batch."""

    def files(self) -> list[str]:
        """Return the table's current files, below its folder: others may have rewritten them."""

    def close(self) -> None:
        """Close what is open."""


class Table:
    """One table, partitioned by date if it has a `date` column.

    Rows without a date get `NO_DATE`. What a killed run had decided is done when it is opened.

    Args:
        columns: an empty frame with the table's columns.
        log: of the table's format; None: plain Parquet files.
    Thread: one at a time.
    """

    def __init__(self, store: Store, name: str, columns: DataFrame, log: Log | None) -> None:
        self._store = store
        self._name = name
        self._columns = columns
        self._log = log
        self._batches = Batches(store, name, f"{CHECKPOINTS}/{name}", folder_each=True, log=log)
        dated = [DATE] if DATE in columns.columns else []
        self._by = dated if log is None else log.by
        self._batches.recover_all()

    def has(self, batch: int) -> bool:
        """Return whether readers see this batch."""
        if self._log is not None:
            return self._log.has(batch)
        # The first releases wrote no manifests: a folder that was renamed into the table is whole.
        return self._batches.has(batch) or (self._store.renames and self._store.exists(self._folder(batch)))

    def write(self, frame: DataFrame, batch: int) -> int:
        """Write the rows of `frame` as this batch, unless it exists; return its number of rows.

        Batches count from 0. Executors write to the store themselves.
        """
        if not self.has(batch):
            return self._batches.commit(self._staged(frame, batch), {}).rows
        there = self._batches.read(batch)
        return there.rows if there is not None else sum(self._rows(name) for name in self._files(batch))

    def read_batch(self, spark: SparkSession, batch: int) -> DataFrame:
        """Return the rows of one written batch, with the table's columns."""
        folder = self._folder(batch)
        names = [name.partition("/")[2] for name in self._files(batch)]
        return self._store.frame(spark, self._columns.schema, folder, names).select(*self._columns.columns)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the whole table, without `date`."""
        columns = self._columns.drop(DATE)
        # The log's own account counts: its other writers make other files of ours.
        names = _parquet(self._store.names(self._name)) if self._log is None else self._log.files()
        return self._store.frame(spark, columns.schema, self._name, names).select(*columns.columns)

    def tally(self, batch: int, column: str) -> Counter[str]:
        """Return how often each text occurs in a column of a batch."""
        counts: Counter[str] = Counter()
        for name in self._files(batch):
            with self._store.open(f"{self._name}/{name}") as file, pq.ParquetFile(file) as opened:
                for rows in opened.iter_batches(columns=[column]):
                    counts.update(
                        {pair["values"]: pair["counts"] for pair in rows.column(0).value_counts().to_pylist()}
                    )
        return counts

    def _folder(self, batch: int) -> str:
        return f"{self._name}/batch={batch}"

    def _files(self, batch: int) -> list[str]:
        """Return the files of a batch, below the table's folder."""
        there: Batch | None = self._batches.read(batch)
        if there is not None:
            return list(there.files)
        return [f"batch={batch}/{name}" for name in _parquet(self._store.names(self._folder(batch)))]

    def _rows(self, name: str) -> int:
        with self._store.open(f"{self._name}/{name}") as file:
            return int(pq.read_metadata(file).num_rows)

    def _staged(self, frame: DataFrame, batch: int) -> Staged:
        if DATE in self._columns.columns:
            from pyspark.sql import functions as F

            frame = frame.withColumn(DATE, F.coalesce(DATE, F.lit(NO_DATE).cast("date")))
        staged = self._batches.stage(frame, batch, self._by)
        if staged.names or not self._by or self._log is not None or _parquet(self._store.names(self._name)):
            return staged
        # so that those who read the folder find the columns of a table that is empty as yet
        folder = f"{DATE}={NO_DATE}"
        empty = self._store.write(self._columns.drop(DATE).coalesce(1), f"{staged.folder}/{folder}", [])
        return replace(staged, names=tuple(f"{folder}/{name}" for name in empty.names))


def _parquet(names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".parquet")]
