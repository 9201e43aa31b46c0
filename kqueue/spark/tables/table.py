"""One table: a folder with one folder per batch, ``batch=3/date=2013-01-01/part-….parquet``.

A batch is written to a staging folder and renamed when it is complete. So readers see all of it or
nothing. A batch that Spark repeats, because the driver was killed before Spark recorded it, is
already there. Delta's log then lists those files.
"""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kqueue.spark.tables.delta import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# the date of records without a valid time: pandas cannot read partition folders with a null date
NO_DATE = "1970-01-01"
DATE = "date"
NO_MARKS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class Table:
    """One table, partitioned by date if it has a `date` column.

    Rows without a date get `NO_DATE`.

    Args:
        columns: an empty frame with the table's columns.
    Thread: one at a time.
    """

    def __init__(self, folder: Path, staging: Path, columns: DataFrame, log: DeltaLog | None) -> None:
        self.folder = folder
        self._staging = staging
        self._columns = columns
        self._log = log

    def has(self, batch: int) -> bool:
        """Return whether readers see this batch."""
        return self._path(batch).is_dir() if self._log is None else self._log.has(batch)

    def write(self, frame: DataFrame, batch: int) -> int:
        """Write the rows of `frame` as this batch, unless it exists; return its number of rows.

        Batches count from 0. Executors write to a file system that they share with the driver.
        """
        final = self._path(batch)
        if self._log is not None and self._log.has(batch):
            return sum(_rows(file) for file in self._files(batch))
        if not final.is_dir():
            staged = self._staging / f"{self.folder.name}-{batch}-{uuid.uuid4().hex}"
            self._write(frame, staged)
            self.folder.mkdir(exist_ok=True)
            staged.rename(final)
        files = self._files(batch)
        if self._log is not None:
            self._log.commit(batch, files)
        return sum(_rows(file) for file in files)

    def read_batch(self, spark: SparkSession, batch: int) -> DataFrame:
        """Return the rows of one written batch, with the table's columns."""
        return spark.read.schema(self._columns.schema).parquet(str(self._path(batch))).select(*self._columns.columns)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the whole table, without `date`."""
        columns = self._columns.drop(DATE)
        # Delta's own account counts: its other writers make other files of ours.
        paths = [str(self.folder)] if self._log is None else self._log.files()
        if not paths or not self.folder.is_dir():
            return columns
        return spark.read.schema(columns.schema).parquet(*paths).select(*columns.columns)

    def tally(self, batch: int, column: str) -> Counter[str]:
        """Return how often each text occurs in a column of a batch."""
        found: Counter[str] = Counter()
        for file in self._files(batch):
            with pq.ParquetFile(file) as opened:
                for rows in opened.iter_batches(columns=[column]):
                    found.update({pair["values"]: pair["counts"] for pair in rows.column(0).value_counts().to_pylist()})
        return found

    def _path(self, batch: int) -> Path:
        return self.folder / f"batch={batch}"

    def _files(self, batch: int) -> list[Path]:
        return sorted(self._path(batch).rglob("*.parquet"))

    def _write(self, frame: DataFrame, staged: Path) -> None:
        by = [DATE] if DATE in self._columns.columns else []
        if by:
            from pyspark.sql import functions as F

            frame = frame.withColumn(DATE, F.coalesce(DATE, F.lit(NO_DATE).cast("date")))
        frame.write.options(**NO_MARKS).partitionBy(*by).parquet(str(staged))
        if (
            by
            and self._log is None
            and not any(self.folder.glob("batch=*/*/*.parquet"))
            and not any(staged.rglob("*.parquet"))
        ):
            # so that those who read the folder find the columns of a table that is empty as yet
            self._columns.drop(DATE).coalesce(1).write.options(**NO_MARKS).parquet(str(staged / f"{DATE}={NO_DATE}"))


def _rows(file: Path) -> int:
    return int(pq.read_metadata(file).num_rows)
