"""Encoder of Arrow columns to record batches, as a producer sends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from kqueue.base.errors import InvalidRecord
from kqueue.records.arrow.engine import EngineName, load_compiled_engine
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.records.varints import VARINTS

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 1_000_000  # below the default max.message.bytes
NO_TIMESTAMP = -1
_INT_MAX = 2**31 - 1
_BYTES_TYPES = ("binary", "string", "large_binary", "large_string", "binary_view", "string_view", "null")
_ROWS_AT_ONCE = 4_096  # rows that the Python engine converts to objects in one step


class EncodedBatch(NamedTuple):
    """A batch and its number of records."""

    batch: bytearray
    records: int


class ProducerArgs(TypedDict, total=False):
    """Producer arguments of `BatchBuilder`. `base_sequence`: of the first batch."""

    codec: str
    level: int | None
    producer_id: int
    epoch: int
    base_sequence: int
    transactional: bool


class EncodeColumns(NamedTuple):
    """Columns in the types that both engines take.

    Attributes:
        key, value: binary. time: int64, ms, no nulls.
        lists: offsets of each row's headers in `names` and `contents`; None: there are no headers.
        names, contents: binary, of all headers.
    """

    key: pa.Array
    value: pa.Array
    time: pa.Array
    lists: pa.ListArray | None
    names: pa.Array
    contents: pa.Array


def encode_batches(
    columns: pa.RecordBatch | pa.Table,
    *,
    batch_bytes: int = BATCH_BYTES,
    batch_records: int = _INT_MAX,
    default_ms: int = NO_TIMESTAMP,
    engine: EngineName = "auto",
    **producer: Unpack[ProducerArgs],
) -> Iterator[EncodedBatch]:
    """Yield batches of magic 2 with the rows of `columns`, as `BatchBuilder` builds them.

    Each batch begins at offset 0, like those of a producer.

    Args:
        columns: key and value (bytes or text), headers (list of struct of key and value), timestamp
            (a timestamp, or ms since 1970). Each may be missing or null, except a header's key.
            Other columns are ignored.
        batch_bytes: most bytes of a batch before compression; only a single row may exceed it.
        batch_records: at least 1.
        default_ms: the time of rows without one, -1: none.
        engine: as for `chunk_builder`.
    Raises:
        ValueError: a column has another type, or a limit is out of range.
        InvalidRecord: a header has no key, times are too far apart, or a record is too large.
        PluginError: there is no such codec.
    """
    if batch_records < 1 or batch_bytes < 1:
        raise ValueError(f"a batch has 1 record and byte at least, not {batch_records} and {batch_bytes}")
    CODECS.get(producer.get("codec", "none"))
    fast = load_compiled_engine(engine, columns.nbytes)
    return _encode_all(columns, min(batch_bytes, _INT_MAX), min(batch_records, _INT_MAX), default_ms, fast, producer)


def _encode_all(
    columns: Any, batch_bytes: int, batch_records: int, default_ms: int, fast: Any, producer: ProducerArgs
) -> Iterator[EncodedBatch]:
    import pyarrow as pa

    sequence = producer.get("base_sequence", -1)
    tables = columns.combine_chunks().to_batches() if isinstance(columns, pa.Table) else [columns]
    for table in tables:
        for part in _parts(table):
            rows, at = _rows_of(part, default_ms), 0
            compiled = fast is not None and part.num_rows and not rows.names.null_count
            encoder = fast.CompiledBatchEncoder(rows, batch_bytes, batch_records) if compiled else None
            while at < part.num_rows:
                settings: ProducerArgs = {**producer, "base_sequence": sequence}
                builder = BatchBuilder(**settings)
                if encoder is None or not encoder.fill(builder, at):
                    _fill(builder, rows, at, batch_bytes, batch_records)
                yield EncodedBatch(builder.build(), builder.count)
                at += builder.count
                if sequence >= 0:
                    sequence = (sequence + builder.count) & _INT_MAX


# --- normalizing columns


def _parts(table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of the rows whose columns have less than 2 GiB each."""
    if table.num_rows > 1 and any(column.nbytes > _INT_MAX for column in table.columns):
        half = table.num_rows // 2
        yield from _parts(table.slice(0, half))
        yield from _parts(table.slice(half))
    else:
        yield table


def _rows_of(table: pa.RecordBatch, default_ms: int) -> EncodeColumns:
    import pyarrow as pa

    columns = {
        name: table.column(name) if name in table.schema.names else None
        for name in ("key", "value", "timestamp", "headers")
    }
    none = pa.nulls(table.num_rows)
    lists, names, contents = _headers(columns["headers"])
    key, value = (binary(none if columns[name] is None else columns[name], name) for name in ("key", "value"))
    return EncodeColumns(
        key,
        value,
        _times(none if columns["timestamp"] is None else columns["timestamp"], default_ms),
        lists,
        names,
        contents,
    )


def binary(column: pa.Array, name: str) -> pa.Array:
    """Return a column as binary. Raises: ValueError: it is neither bytes nor text."""
    import pyarrow as pa

    kind = str(column.type)
    if kind not in _BYTES_TYPES and not kind.startswith("fixed_size_binary"):
        raise ValueError(f"the column {name} is to be bytes or text, not {kind}")
    return column.cast(pa.binary())


def _times(column: pa.Array, default_ms: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        if column.type.unit in ("us", "ns"):
            column = pc.floor_temporal(column.cast(pa.timestamp(column.type.unit)), unit="millisecond")
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise ValueError(f"the column timestamp is to be a timestamp, or ms as an integer, not {column.type}")
    return pc.fill_null(column.cast(pa.int64()), default_ms)


def _headers(column: pa.Array | None) -> tuple[pa.ListArray | None, pa.Array, pa.Array]:
    import pyarrow as pa

    nothing = pa.array([], pa.binary())
    if column is None or pa.types.is_null(column.type):
        return None, nothing, nothing
    if pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    inside = column.type.value_type if pa.types.is_list(column.type) else None
    if inside is None or not pa.types.is_struct(inside) or {field.name for field in inside} != {"key", "value"}:
        raise ValueError(f"the column headers is to be a list of structs of key and value, not {column.type}")
    places = [inside.get_field_index(name) for name in ("key", "value")]
    parts = column.values.flatten()  # with the nulls of the structs
    names, contents = (
        binary(parts[place], f"headers.{name}") for place, name in zip(places, ("key", "value"), strict=True)
    )
    return column, names, contents


# --- the Python engine


def _fill(builder: BatchBuilder, rows: EncodeColumns, at: int, batch_bytes: int, batch_records: int) -> None:
    """Append the rows from `at` on that fit into one batch. Raises: InvalidRecord."""
    base_time = None
    for time, key, value, headers in _objects(rows, at):
        base_time = time if base_time is None else base_time
        if (
            builder.count
            and builder.size_estimate + _size(time - base_time, builder.count, key, value, headers) > batch_bytes
        ):
            break
        builder.append(time, key, value, headers)
        if builder.count == batch_records:
            break
    if builder.size_estimate > _INT_MAX:
        raise InvalidRecord(f"a record makes a batch of {builder.size_estimate} bytes")


def _objects(
    rows: EncodeColumns, at: int
) -> Iterator[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    for start in range(at, len(rows.key), _ROWS_AT_ONCE):
        keys, values, times = (column.slice(start, _ROWS_AT_ONCE).to_pylist() for column in rows[:3])
        lists = None if rows.lists is None else rows.lists.slice(start, _ROWS_AT_ONCE)
        ends = None if lists is None else lists.offsets.to_pylist()
        for number, (time, key, value) in enumerate(zip(times, keys, values, strict=True)):
            if lists is None or ends is None or ends[number] == ends[number + 1] or not lists[number].is_valid:
                yield time, key, value, []
            else:
                yield time, key, value, _pairs(rows, start + number, ends[number], ends[number + 1])


def _pairs(rows: EncodeColumns, row: int, first: int, after: int) -> list[tuple[str, bytes | None]]:
    names, contents = (column.slice(first, after - first).to_pylist() for column in (rows.names, rows.contents))
    if None in names:
        raise InvalidRecord(f"a header of row {row} has no key")
    return [(name.decode("utf-8", "surrogateescape"), content) for name, content in zip(names, contents, strict=True)]


def _size(
    time_delta: int, delta: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> int:
    """Return the bytes of a record in a batch."""
    size = 1 + len(VARINTS[time_delta]) + len(VARINTS[delta]) + _sized(key) + _sized(value) + len(VARINTS[len(headers)])
    for name, content in headers:
        size += _sized(name.encode("utf-8", "surrogateescape")) + _sized(content)
    return len(VARINTS[size]) + size


def _sized(data: bytes | None) -> int:
    return 1 if data is None else len(VARINTS[len(data)]) + len(data)
