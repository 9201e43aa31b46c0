"""Records as Apache Arrow's record batches, of bounded size. Needs pyarrow, which the extra `kqueue[arrow]` brings."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import ExtraNeeded
from kqueue.files.rows import ROW_BYTES, Partition, Row, Selection, rows, size_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 65_536
BYTES_MAX = 8 * 1024 * 1024
_TYPES = {
    "binary": "binary",
    "utf8": "string",
    "json": "string",  # its text, checked
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
}


def need_pyarrow() -> None:
    """Raises ExtraNeeded: pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ExtraNeeded("Arrow and Parquet need pyarrow, which is not installed; get it with: pip install 'kqueue[arrow]'")


def schema(key_as: str = "binary", value_as: str = "binary") -> pa.Schema:
    """The columns. Raises ExtraNeeded."""
    need_pyarrow()
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
            pa.field("timestamp_type", pa.string()),
            pa.field("key", getattr(pa, _TYPES[key_as])()),
            pa.field("value", getattr(pa, _TYPES[value_as])()),
            pa.field("headers", pa.list_(header), nullable=False),
            pa.field("leader_epoch", pa.int32()),
            pa.field("producer_id", pa.int64()),
            pa.field("producer_epoch", pa.int16()),
            pa.field("sequence", pa.int32()),
        ]
    )


def record_batches(
    found: Iterable[Row], selection: Selection, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of at most `rows_max` rows, and of about `bytes_max` bytes (one row may be larger). Raises ExtraNeeded."""
    form = schema(selection.key_as, selection.value_as)
    chunk: list[Row] = []
    size = 0
    append, bytes_type = chunk.append, bytes
    for row in found:
        append(row)
        _, _, _, _, _, key, value, headers, _, _, _, _ = row
        if headers or key.__class__ is not bytes_type or value.__class__ is not bytes_type:
            size += size_of(row)
        else:
            size += len(key) + len(value) + ROW_BYTES
        if len(chunk) >= rows_max or size >= bytes_max:
            yield _record_batch(chunk, form, selection)
            chunk.clear()
            size = 0
    if chunk:
        yield _record_batch(chunk, form, selection)


def _record_batch(chunk: list[Row], form: pa.Schema, selection: Selection) -> pa.RecordBatch:
    import pyarrow as pa

    columns: dict[str, list[Any]] = dict(zip(Row._fields, map(list, zip(*chunk, strict=True)), strict=True))
    for name, kind in (("key", selection.key_as), ("value", selection.value_as)):
        if kind == "json":
            columns[name] = [None if value is None else json.dumps(value, ensure_ascii=False) for value in columns[name]]
    if any(columns["headers"]):
        columns["headers"] = [[{"key": _text(name), "value": value} for name, value in headers] for headers in columns["headers"]]
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in form], schema=form)


def _text(name: str) -> str:
    """A header's name; bytes that are no UTF-8 are replaced, since Arrow's strings can't hold them."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def arrow_batches(
    log: Partition, selection: Selection, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """A partition's records as record batches. Raises: as `rows`, and ExtraNeeded."""
    need_pyarrow()
    return record_batches(rows(log, selection), selection, rows_max=rows_max, bytes_max=bytes_max)


def to_table(log: Partition, selection: Selection) -> pa.Table:
    """A partition's records as one table. Raises: as `arrow_batches`."""
    form = schema(selection.key_as, selection.value_as)
    import pyarrow as pa

    return pa.Table.from_batches(arrow_batches(log, selection), form)
