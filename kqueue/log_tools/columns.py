"""Records of logs as Arrow record batches by the compiled engine, whole batches at a time.

It is the fast path of `arrow`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import AnyHeader
from kqueue.log_tools.rows import (
    PartitionLog,
    Selection,
    decode_error,
    decoder,
    report_damaged_records,
    selected_batches,
    timestamp_type,
)
from kqueue.log_tools.segments import ReadableBatch
from kqueue.records.arrow.contract import ChunkLimits, ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.derived_columns import sequences, tag_column, timestamps
from kqueue.records.arrow.engine import EngineName, load_compiled_engine
from kqueue.records.batch import BatchHeader

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = ("binary", "utf8")  # other forms are converted row by row


class RowSource(NamedTuple):
    """The partition and the batch header that a run of rows comes from."""

    log: PartitionLog
    unit: AnyHeader


def is_supported(selection: Selection, data_bytes: int | None = None) -> bool:
    """Return whether the compiled engine can and should convert this selection.

    Keys and values must be of `FORMS`, and the engine must be installed and worth its load time for
    `data_bytes` (None: many).
    """
    return (
        selection.key_as in FORMS
        and selection.value_as in FORMS
        and load_compiled_engine("auto", data_bytes) is not None
    )


def column_batches(
    logs: Iterable[PartitionLog],
    selection: Selection,
    form: pa.Schema,
    limits: ChunkLimits,
    progress: Callable[[int], None],
    engine: EngineName = "auto",
) -> Iterator[pa.RecordBatch]:
    """Return the same batches as `arrow.record_batches`, without building rows.

    Args:
        form: the Arrow schema.
        limits: rows and bytes of a batch.
        progress: receives the bytes of log that were read since its last call.
    Raises: as `rows`.
    """
    column_decoder = ColumnDecoder(limits=limits, engine=engine)
    for log in logs:
        batches, start, end = selected_batches(log, selection, progress)
        column_decoder.bounds = RecordRange(start, end, selection.since_ms, selection.until_ms)
        for batch in batches:
            try:
                for piece in _added(column_decoder, log, batch):
                    yield _record_batch(piece, form, selection)
            except CorruptBatch as error:
                report_damaged_records(batch, error, selection)
    for piece in column_decoder.finish():
        yield _record_batch(piece, form, selection)


def _added(column_decoder: ColumnDecoder, log: PartitionLog, batch: ReadableBatch) -> Iterator[ColumnChunk]:
    try:
        yield from column_decoder.add(batch.data(), batch.unit, tag=RowSource(log, batch.unit))
    except CorruptBatch as error:
        raise CorruptBatch(f"{batch.location}, position {batch.position}: {error}") from error


def _record_batch(piece: ColumnChunk, form: pa.Schema, selection: Selection) -> pa.RecordBatch:
    import pyarrow as pa

    columns = {
        "topic": tag_column(piece, lambda source: source.log.topic, pa.string()),
        "partition": tag_column(piece, lambda source: source.log.partition, pa.int32()),
        "offset": piece.offset,
        "timestamp": timestamps(piece),
        "timestamp_type": tag_column(piece, lambda source: timestamp_type(source.unit), pa.string()),
        "key": piece.key,
        "value": piece.value,
        "headers": piece.headers,
        "leader_epoch": tag_column(
            piece, lambda source: _of_batch(source.unit, "leader_epoch", "leader_epoch"), pa.int32()
        ),
        "producer_id": tag_column(
            piece, lambda source: _of_batch(source.unit, "producer_id", "producer_id"), pa.int64()
        ),
        "producer_epoch": tag_column(
            piece, lambda source: _of_batch(source.unit, "producer_epoch", "producer_id"), pa.int16()
        ),
        "sequence": sequences(piece, lambda source: source.unit),
    }
    try:
        for name, kind in (("key", selection.key_as), ("value", selection.value_as)):
            if kind == "utf8":
                columns[name] = columns[name].cast(pa.string())
    except pa.ArrowInvalid:
        _raise_undecodable(piece, selection)
        raise
    return pa.RecordBatch.from_arrays([columns[field.name] for field in form], schema=form)


def _of_batch(unit: AnyHeader, name: str, given_by: str) -> int | None:
    """Return the header field `name`.

    None if the field `given_by` is negative, or in old formats.
    """
    if not isinstance(unit, BatchHeader) or getattr(unit, given_by) < 0:
        return None
    return int(getattr(unit, name))


def _raise_undecodable(piece: ColumnChunk, selection: Selection) -> None:
    """Raise DecodeError with the first offset whose key or value cannot be decoded."""
    key_of, value_of = decoder(selection.key_as), decoder(selection.value_as)
    ends = list(accumulate(count for count, _ in piece.runs))
    for row, (offset, key, value) in enumerate(
        zip(piece.offset.to_pylist(), piece.key.to_pylist(), piece.value.to_pylist(), strict=True)
    ):
        try:
            _ = key is None or key_of(key), value is None or value_of(value)
        except ValueError as error:
            raise decode_error(piece.runs[bisect_right(ends, row)][1].log, offset, error) from None
