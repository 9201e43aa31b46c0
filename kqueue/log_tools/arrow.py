"""Records as Apache Arrow record batches of bounded size. Needs pyarrow (the extra `arrow`).

Records are converted row by row, or, where `kqueue[fast]` is installed and the log is large enough,
whole batches at a time (`columns`).
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.log_tools.columns import column_batches, is_supported
from kqueue.log_tools.rows import ROW_BYTES, PartitionLog, Row, Selection, rows, size_of
from kqueue.records.arrow import contract
from kqueue.records.arrow.contract import ChunkLimits

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = contract.ROWS_MAX
BYTES_MAX = contract.BYTES_MAX
_TYPES = {
    "binary": "binary",
    "utf8": "string",
    "json": "string",  # the text, validated
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
}


def require_pyarrow() -> None:
    """Raise ExtraNeeded if pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ExtraNeeded(
            f"Arrow and Parquet need pyarrow, which is not installed; get it with: {install_hint('arrow')}"
        )


def schema(key_as: str = "binary", value_as: str = "binary") -> pa.Schema:
    """Return the Arrow schema of the columns.

    Args:
        key_as, value_as: names of `rows.DECODERS`.
    Raises: ExtraNeeded: pyarrow is not installed.
    """
    require_pyarrow()
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
    table_rows: Iterable[Row], selection: Selection, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Return rows as record batches of at most `rows_max` rows and about `bytes_max` bytes.

    A batch exceeds `bytes_max` by at most its last row.

    Raises: ExtraNeeded.
    """
    form = schema(selection.key_as, selection.value_as)
    chunk: list[Row] = []
    size = 0
    append, bytes_type = chunk.append, bytes
    for row in table_rows:
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
            columns[name] = [
                None if value is None else json.dumps(value, ensure_ascii=False) for value in columns[name]
            ]
    if any(columns["headers"]):
        columns["headers"] = [
            [{"key": _text(name), "value": value} for name, value in headers] for headers in columns["headers"]
        ]
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in form], schema=form)


def _text(name: str) -> str:
    """Return a header's name as valid UTF-8; other bytes, which Arrow rejects, are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def batches_of_logs(
    logs: Iterable[PartitionLog],
    selection: Selection,
    *,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    progress: Callable[[int], None] | None = None,
    data_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the records of these partitions, one partition after another, as record batches.

    Args:
        progress: receives the bytes of log that were read since its last call.
        data_bytes: bytes of all logs, which decide whether the compiled engine is worth its load
            time; None: many.
    Raises: as `rows`, and ExtraNeeded.
    """
    require_pyarrow()
    on_progress = progress or (lambda size: None)
    if is_supported(selection, data_bytes):
        limits = ChunkLimits(min(rows_max, contract.DATA_MAX), min(bytes_max, contract.BYTES_LIMIT))
        return column_batches(logs, selection, schema(selection.key_as, selection.value_as), limits, on_progress)
    table_rows = (row for log in logs for row in rows(log, selection, on_progress))
    return record_batches(table_rows, selection, rows_max=rows_max, bytes_max=bytes_max)


def arrow_batches(
    log: PartitionLog,
    selection: Selection,
    *,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    data_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return a partition's records as record batches. Args, Raises: as `batches_of_logs`."""
    return batches_of_logs([log], selection, rows_max=rows_max, bytes_max=bytes_max, data_bytes=data_bytes)


def to_table(log: PartitionLog, selection: Selection, *, data_bytes: int | None = None) -> pa.Table:
    """Return a partition's records as one table. Args, Raises: as `batches_of_logs`."""
    form = schema(selection.key_as, selection.value_as)
    import pyarrow as pa

    return pa.Table.from_batches(arrow_batches(log, selection, data_bytes=data_bytes), form)
