"""Parquet files that Spark's tasks write and read in Python, where Spark has no file system.

A task gathers a file in memory, up to `FILE_BYTES` of Parquet, and puts it as one object. So an
object is whole, and what the tasks tell the driver names the objects that count: other attempts of
a task have left objects that nobody names.
"""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kqueue.spark.stores.store import NULL_VALUE

FILE_BYTES = 128 * 1024**2
GROUP_BYTES = 64 * 1024**2
"""Of rows in memory that become one row group."""
READ_ROWS = 10_000
TOLD = pa.schema([("name", pa.string()), ("rows", pa.int64())])
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Objects(Protocol):
    """An object store as tasks use it; it goes to them with the task."""

    def get(self, path: str) -> bytes:
        """Return an object."""

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""


def write_task(objects: Objects, folder: str, by: Sequence[str], codec: str) -> Task:
    """Return a task that writes rows, sorted by the columns `by`, and yields names and rows."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = _Files(objects, folder, codec)
        for batch in batches:
            for values, rows in _runs(batch, by):
                files.add("".join(f"{name}={_text(value)}/" for name, value in zip(by, values, strict=True)), rows)
        files.finish()
        yield pa.RecordBatch.from_pylist(files.told, TOLD)

    return write


def read_task(objects: Objects, folder: str, schema: pa.Schema) -> Task:
    """Return a task that takes names of files below a folder and yields their rows.

    Columns that a file lacks come from the names of its folders, or are null.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name in itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
            named = dict(part.split("=", 1) for part in name.split("/")[:-1] if "=" in part)
            with pq.ParquetFile(pa.BufferReader(objects.get(f"{folder}/{name}"))) as file:
                columns = [field.name for field in schema if field.name in file.schema_arrow.names]
                for rows in file.iter_batches(READ_ROWS, columns=columns):
                    yield _conformed(rows, schema, named)

    return read


class _Files:
    """The files of one task, one at a time."""

    def __init__(self, objects: Objects, folder: str, codec: str) -> None:
        self.told: list[dict[str, Any]] = []
        self._objects = objects
        self._folder = folder
        self._codec = codec
        self._path: str | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._rows = 0
        self._sink: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, path: str, rows: pa.RecordBatch) -> None:
        """Add rows to the file of a folder; end that of another one."""
        if path != self._path:
            self.finish()
            self._path = path
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= GROUP_BYTES:
            self._write_group()
            assert self._sink is not None
            if self._sink.tell() >= FILE_BYTES:
                self.finish()

    def finish(self) -> None:
        """Put the file, if there is one."""
        if self._waiting:
            self._write_group()
        if self._writer is None or self._sink is None:
            return
        self._writer.close()
        name = f"{self._path}part-{len(self.told):05d}-{uuid.uuid4()}.parquet"
        self._objects.put(f"{self._folder}/{name}", self._sink.getvalue().to_pybytes())
        self.told.append({"name": name, "rows": self._rows})
        self._writer = self._sink = None
        self._rows = 0

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression=self._codec)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._rows += table.num_rows
        self._waiting, self._waiting_bytes = [], 0


def _runs(batch: pa.RecordBatch, by: Sequence[str]) -> Iterable[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield the rows with equal values in `by`, without these columns; they are sorted by them."""
    if not batch.num_rows:
        return
    kept = batch.select([name for name in batch.schema.names if name not in by])
    ends = {batch.num_rows}
    for name in by:
        ends.update(pc.run_end_encode(batch.column(name)).run_ends.to_pylist())
    start = 0
    for end in sorted(ends):
        yield tuple(batch.column(name)[start].as_py() for name in by), kept.slice(start, end - start)
        start = end


def _text(value: object) -> str:
    """Return a value as it occurs in the name of a folder."""
    if value is None:
        return NULL_VALUE
    text = value.isoformat() if isinstance(value, dt.date) else str(value)
    assert "/" not in text, text
    return text


def _conformed(rows: pa.RecordBatch, schema: pa.Schema, named: dict[str, str]) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name in rows.schema.names:
            columns.append(rows.column(field.name).cast(field.type))
            continue
        value = named.get(field.name, NULL_VALUE)
        one = pa.scalar(None if value == NULL_VALUE else value, pa.string()).cast(field.type)
        columns.append(pa.repeat(one, rows.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
