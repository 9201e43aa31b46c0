"""The columns of a frame to write, and validation of rows. No pyspark; needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.names import did_you_mean
from kqueue.spark.errors import RowRefused

if TYPE_CHECKING:
    import pyarrow as pa

RECORD = ("key", "value", "headers", "timestamp")
_BYTES = ("binary", "string")
_HEADERS = ("array<struct<key:string,value:binary>>", "array<struct<key:string,value:string>>")


class Column(NamedTuple):
    """A column that can be written.

    `types`: accepted types as Spark's `simpleString` names them; the first is recommended.
    """

    name: str
    types: tuple[str, ...]
    doc: str


COLUMNS = (
    Column("key", _BYTES, "The record's key; null or missing: it has none."),
    Column("value", _BYTES, "The record's value; null: a tombstone, for compacted topics."),
    Column("headers", _HEADERS, "The record's headers, as the source has them with includeHeaders."),
    Column("timestamp", ("timestamp", "timestamp_ntz"), "The record's time; null or missing: when it is written."),
    Column("topic", ("string",), "Where the row goes; the option topic stands over it."),
    Column(
        "partition",
        ("int", "smallint", "tinyint", "bigint"),
        "The partition; null or missing: the partitioner chooses.",
    ),
)
BY_NAME = {column.name: column for column in COLUMNS}
OF_SOURCE = ("offset", "timestampType")
"""Columns of the source that cannot be written.

They are ignored, so that a frame that was read can be written.
"""


def check_columns(fields: Sequence[tuple[str, str]], topic: str | None) -> None:
    """Validate the names and types of a frame's columns.

    Args:
        topic: the option's topic.
    Raises: RowRefused: missing, mistyped or unknown; the message says what to do.
    """
    names = [name for name, _ in fields]
    for name, kind in fields:
        column = BY_NAME.get(name)
        if column is None and name not in OF_SOURCE:
            what = f"there is no column {name!r} to write{did_you_mean(name.lower(), BY_NAME)}"
            raise RowRefused(
                f"{what}: a record has {', '.join(BY_NAME)}. Drop it, or make it a part of the value "
                "(to_json(struct(…)))"
            )
        if column is not None and kind != "void" and kind not in column.types:
            raise RowRefused(f"the column {name!r} is {kind}, expected {' or '.join(column.types)}: cast it")
        if names.count(name) > 1:
            raise RowRefused(f"there are {names.count(name)} columns {name!r}")
    if "value" not in names:
        raise RowRefused(f"there is no column 'value'; the frame has {', '.join(names) or 'none'}")
    if topic is None and "topic" not in names:
        raise RowRefused("rows have no target topic: give the option topic, or a column 'topic'")


def record_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that are part of a record."""
    return rows.select([name for name in RECORD if name in rows.schema.names])


def topics_of(rows: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Return the rows of each topic, in order. Raises: RowRefused: a row has no topic."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column("topic")
    if column.null_count:
        raise RowRefused(
            f"the column 'topic' is null in {column.null_count} of {rows.num_rows} rows: say where they go, or "
            "leave them out"
        )
    names = pc.unique(column.cast(pa.string())).to_pylist()
    if len(names) == 1:
        return [(names[0], rows)]
    return [(name, rows.filter(pc.equal(column, pa.scalar(name, column.type)))) for name in names]


def check_headers(rows: pa.RecordBatch) -> None:
    """Raise RowRefused if a header is null or has no key."""
    if "headers" not in rows.schema.names:
        return
    column = rows.column("headers")
    if column.null_count == len(column):
        return
    inside = column.flatten()
    nulls = inside.null_count or (inside.field("key").null_count if len(inside) else 0)
    if nulls:
        raise RowRefused(f"{nulls} headers have no key: leave them out, or give them one")
