"""Columns derived from a chunk and its batches: batch fields per row, times, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.batch import BatchHeader
from kqueue.records.message_set import LegacyEntry

if TYPE_CHECKING:
    import pyarrow as pa

_SEQUENCE_MAX = 0x7FFFFFFF  # it wraps to 0 after this


def tag_column(piece: ColumnChunk, value_of: Callable[[Any], Any], type: pa.DataType) -> pa.Array:
    """Return a column of `type` with `value_of(tag)` for all rows of each run; None: null."""
    return _spread(piece, [value_of(tag) for _, tag in piece.runs], type)


def _spread(piece: ColumnChunk, values: Iterable[Any], type: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pa.array(list(accumulate(rows for rows, _ in piece.runs)), pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, type)))


def timestamps(piece: ColumnChunk) -> pa.Array:
    """Return the times as timestamp[ms, UTC]; null: none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = piece.timestamp
    least = pc.min(times).as_py()
    if least is not None and least < 0:
        times = pc.if_else(pc.less(times, 0), pa.scalar(None, pa.int64()), times)
    return times.view(pa.timestamp("ms", tz="UTC"))


def sequences(piece: ColumnChunk, unit_of: Callable[[Any], BatchHeader | LegacyEntry]) -> pa.Array:
    """Return the sequence numbers as int32; null: the producer is not idempotent.

    Args: unit_of: returns the header or entry of a batch by its tag.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    shifts = [_shift(unit_of(tag)) for _, tag in piece.runs]
    if all(shift is None for shift in shifts):
        return pa.nulls(piece.rows, pa.int32())
    moved = pc.add(
        pc.bit_wise_and(piece.offset, pa.scalar(_SEQUENCE_MAX, pa.int64())), _spread(piece, shifts, pa.int64())
    )
    return pc.bit_wise_and(moved, pa.scalar(_SEQUENCE_MAX, pa.int64())).cast(pa.int32())


def _shift(unit: BatchHeader | LegacyEntry) -> int | None:
    """Return the sequence number minus the offset, modulo 2**31."""
    if not isinstance(unit, BatchHeader) or unit.base_sequence < 0:
        return None
    return (unit.base_sequence - unit.base_offset) & _SEQUENCE_MAX
