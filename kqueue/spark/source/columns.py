"""Converts column chunks to the record batches that Spark expects. No pyspark; needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.client.topic_partition import TopicPartition
from kqueue.log.scanner.batch_scanner import AnyHeader
from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.arrow.derived_columns import tag_column, timestamps
from kqueue.spark.errors import WrongValue

if TYPE_CHECKING:
    import pyarrow as pa

    from kqueue.spark.value_formats.decoder import ValueDecoder

NO_TIMESTAMP = -1  # the numbers that Kafka's own TimestampType has
CREATE_TIME = 0
LOG_APPEND_TIME = 1
MS_MAX = (2**63 - 1) // 1_000


def arrow_schema(*, headers: bool, value: pa.DataType | None = None, permissive: bool = False) -> pa.Schema:
    """Return the source's columns as Spark declares them to Arrow.

    The first record batch must match it exactly, names inside headers included.
    Args:
        value: the type of decoded values; None: they are bytes.
        permissive: there are columns for wrong values.
    """
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", value or pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", pa.list_(pa.field("element", header))))
    if permissive:
        fields += [pa.field("valueError", pa.string()), pa.field("valueBytes", pa.binary())]
    return pa.schema(fields)


def record_batch(piece: ColumnChunk, schema: pa.Schema) -> pa.RecordBatch:
    """Return a chunk as a record batch.

    Args:
        schema: of `arrow_schema`. The tags of the chunk's runs are `RunTag`s.
    Timestamps outside Spark's range become null.
    """
    import pyarrow as pa

    piece = _joined(piece)
    columns = {
        "key": piece.key,
        "value": piece.value,
        "topic": tag_column(piece, lambda shared: shared[0].topic, pa.string()),
        "partition": tag_column(piece, lambda shared: shared[0].partition, pa.int32()),
        "offset": piece.offset,
        "timestamp": _in_range(timestamps(piece)),
        "timestampType": tag_column(piece, lambda shared: shared[1], pa.int32()),
        "headers": piece.headers,
    }
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


def _joined(piece: ColumnChunk) -> ColumnChunk:
    """Merge neighbouring runs of one partition and timestamp type, since batches can be tiny."""
    runs: list[tuple[int, tuple[TopicPartition, int]]] = []
    count, last = 0, None
    for rows, (topic_partition, unit) in piece.runs:
        shared = topic_partition, timestamp_type(unit)
        if shared != last and last is not None:
            runs.append((count, last))
            count = 0
        count, last = count + rows, shared
    if last is not None:
        runs.append((count, last))
    return piece._replace(runs=runs)


def timestamp_type(unit: AnyHeader) -> int:
    """Return the code of Kafka's TimestampType: -1 none (oldest format), 0 producer, 1 broker."""
    if not unit.magic:
        return NO_TIMESTAMP
    return LOG_APPEND_TIME if unit.is_log_append_time else CREATE_TIME


def _in_range(times: pa.Array) -> pa.Array:
    """Replace timestamps whose microseconds do not fit 64 bits by null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = times.cast(pa.int64())
    most = pc.max(raw).as_py()
    if most is None or most <= MS_MAX:
        return times
    return pc.if_else(pc.greater(raw, MS_MAX), pa.scalar(None, times.type), times)


def with_values(batch: pa.RecordBatch, schema: pa.Schema, decoder: ValueDecoder) -> pa.RecordBatch:
    """Return a record batch with its values decoded.

    Args:
        schema: of `arrow_schema`, with the type of values.
    Raises: WrongValue: there is no column for it. RegistryFailed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = batch.column("value")
    values, errors = decoder.decode(raw)
    columns = {name: batch.column(name) for name in batch.schema.names} | {"value": values}
    if "valueError" in schema.names:
        reasons = [errors.get(row) for row in range(batch.num_rows)] if errors else [None] * batch.num_rows
        columns["valueError"] = pa.array(reasons, pa.string())
        columns["valueBytes"] = pc.if_else(columns["valueError"].is_valid(), raw, pa.scalar(None, pa.binary()))
    elif errors:
        row = min(errors)
        place = f"{batch.column('topic')[row]}-{batch.column('partition')[row]}, offset {batch.column('offset')[row]}"
        raise WrongValue(f"{place}: {errors[row]}; valueMode=permissive goes on without such values")
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)
