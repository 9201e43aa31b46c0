"""Compiled engine: kernels fill NumPy arrays that become Arrow's without a copy. Its import needs
`kqueue[fast]`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kqueue.base.errors import CorruptBatch
from kqueue.records.arrow import decode_kernels, encode_kernels, hash_kernels
from kqueue.records.arrow.contract import (
    LONG_MAX,
    LONG_MIN,
    BatchSpan,
    ChunkLimits,
    ColumnChunk,
    CorruptBatchAt,
    RecordRange,
    check_offsets,
)
from kqueue.records.arrow.python_engine import PythonChunkBuilder, headers_of
from kqueue.records.batch import BATCH_OVERHEAD, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader
from kqueue.records.batch_kernels import LENGTH_END, read_headers
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import Buffer
from kqueue.records.record import Record, decode_records

if TYPE_CHECKING:
    import pyarrow as pa

    from kqueue.records.arrow.encoder import EncodeColumns

Number = TypeVar("Number", np.int32, np.int64)
_ROWS_FIRST = 1 << 16
_HEADERS_FIRST = 1 << 10
_HEADER_BYTES_FIRST = 1 << 14
_DATA_FIRST_MAX = 64 << 20
_DATA_SLACK = 1 << 16
_OUT_FIRST_MAX = 16 << 20
_SMALL_AT_ONCE = 4_096
_PLAIN = LOG_APPEND_TIME | DELETE_HORIZON  # attributes of batches that `add_small` reads
_BASE, _DELTA, _LATEST = 1, 7, 9  # columns of a table of headers


def view(data: Buffer) -> NDArray[np.uint8]:
    """Return the bytes as a read-only array, so kernels are compiled for one array type."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


class CompiledChunkBuilder:
    """Builds chunks by kernels; see `ChunkBuilder`. Unfilled parts of its arrays cost address space
    only.
    """

    def __init__(self, limits: ChunkLimits) -> None:
        self.at = 0
        self._legacy = PythonChunkBuilder(limits)
        self._limits = limits
        self._runs: list[tuple[int, Any]] = []
        self._state: NDArray[np.int64] = np.zeros(decode_kernels.STATE, np.int64)
        self._arrays: _ChunkArrays | None = None
        self._table: NDArray[np.int64] = np.empty((_SMALL_AT_ONCE, 1 + len(BatchHeader._fields)), np.int64)
        self._bounded: tuple[RecordRange | None, NDArray[np.int64] | None] = None, None

    def _limits_with(self, bounds: RecordRange) -> NDArray[np.int64] | None:
        """Return limits and bounds as the kernels take them; cached for unchanged bounds."""
        if self._bounded[0] is not bounds:
            limits = self._limits
            fields = [
                LONG_MIN if bounds.start_offset is None else bounds.start_offset,
                LONG_MAX if bounds.end_offset is None else bounds.end_offset,
                LONG_MIN if bounds.since_ms is None else bounds.since_ms,
                bounds.until_ms is not None,
                bounds.until_ms or 0,
                limits.rows_max,
                limits.bytes_max,
                limits.data_max,
            ]
            self._bounded = bounds, np.array(fields, np.int64)
        return self._bounded[1]

    def add(self, data: Buffer, spans: Sequence[BatchSpan], bounds: RecordRange) -> Iterator[ColumnChunk]:
        if (piece := self._legacy.take()) is not None:
            yield piece
        self.at = 0
        for number, span in enumerate(spans):
            if span.header.last_offset >= LONG_MAX:  # the spans before it are added first
                yield from self._add(data, spans[:number], bounds)
                self.at = number
                check_offsets(span.header)
        yield from self._add(data, spans, bounds)

    def _add(self, data: Buffer, spans: Sequence[BatchSpan], bounds: RecordRange) -> Iterator[ColumnChunk]:
        if spans:
            plan: NDArray[np.int64] = np.array(
                [_planned(header, start, end) for header, start, end, _ in spans], np.int64
            )
            if not (yield from self._run(data, plan, [span.tag for span in spans], bounds)):
                self.at = int(self._state[decode_kernels.BATCH])
                _raise(data, *spans[self.at][:3])

    def add_small(
        self,
        data: Buffer,
        pos: int,
        bounds: RecordRange,
        tag: Any,
        *,
        transactional: bool,
        check: bool,
        next_offset: int | None,
    ) -> Generator[ColumnChunk, None, tuple[int, int | None]]:
        source, allowed = view(data), _PLAIN | (TRANSACTIONAL if transactional else 0)
        while True:
            count, end = read_headers(source, pos, allowed, check, self._table)
            table = self._table[:count]
            if not count or int(table[:, _BASE].max()) > LONG_MAX - 2**31:
                return pos, next_offset
            if (piece := self._legacy.take()) is not None:
                yield piece
            numbers = np.flatnonzero(_inside(table, bounds))
            rows = table[numbers]
            tags = [(tag, tuple.__new__(BatchHeader, fields)) for fields in rows[:, 1:].tolist()]
            if not (yield from self._run(data, _planned_all(rows), tags, bounds)):
                at = int(self._state[decode_kernels.BATCH])
                start, size = int(rows[at, 0]), tags[at][1].size
                before = (
                    next_offset
                    if numbers[at] == 0
                    else int(table[numbers[at] - 1, _BASE] + table[numbers[at] - 1, _DELTA]) + 1
                )
                try:
                    _raise(data, tags[at][1], start + BATCH_OVERHEAD, start + size)
                except CorruptBatch as error:
                    raise CorruptBatchAt(start, before, error) from error
            pos, next_offset = end, int(table[-1, _BASE] + table[-1, _DELTA]) + 1

    def _run(
        self, data: Buffer, plan: NDArray[np.int64], tags: Sequence[Any], bounds: RecordRange
    ) -> Generator[ColumnChunk, None, bool]:
        """Add the records of the batches in `plan`. Returns: False: the batch at `state[BATCH]` is
        invalid.
        """
        state, source, limits = self._state, view(data), self._limits_with(bounds)
        row_counts: NDArray[np.int64] = np.zeros(len(plan), np.int64)
        state[: decode_kernels.SIZE] = 0
        while True:
            chunk = self._arrays = self._arrays or _ChunkArrays(self._limits)
            first = int(state[decode_kernels.BATCH])
            answer = decode_kernels.decode(source, plan, limits, state, row_counts, *chunk.arrays)
            for tag, count in zip(
                tags[first:], row_counts[first : state[decode_kernels.BATCH] + 1].tolist(), strict=False
            ):
                if count:
                    self._runs.append((count, tag))
            row_counts[first : state[decode_kernels.BATCH] + 1] = 0
            if answer == decode_kernels.GROW:
                chunk.grow(state[decode_kernels.NEED :])
            elif answer == decode_kernels.FULL:
                yield self._cut()
            else:
                return bool(answer == decode_kernels.DONE)

    def add_records(self, records: Sequence[Record], tag: Any, bounds: RecordRange) -> Iterator[ColumnChunk]:
        if (piece := self._take()) is not None:
            yield piece
        yield from self._legacy.add_records(records, tag, bounds)

    def take(self) -> ColumnChunk | None:
        return self._take() or self._legacy.take()

    def _take(self) -> ColumnChunk | None:
        return self._cut() if self._state[decode_kernels.ROWS] else None

    def _cut(self) -> ColumnChunk:
        assert self._arrays is not None, "the chunk has rows"
        piece = self._arrays.piece(self._state, self._runs)
        self._arrays, self._runs = None, []
        self._state[decode_kernels.SIZE :] = 0
        return piece


def _planned(header: tuple[int, ...], start: int, end: int) -> tuple[int, ...]:
    base_offset, _, _, _, _, attributes, delta_max, base_time, max_time, _, _, _, count = header
    return start, end, base_offset, delta_max, count, base_time, attributes & LOG_APPEND_TIME, max_time


def _planned_all(table: NDArray[np.int64]) -> NDArray[np.int64]:
    start = table[:, 0] + BATCH_OVERHEAD
    end = table[:, 0] + table[:, 2] + LENGTH_END
    columns = (
        start,
        end,
        table[:, _BASE],
        table[:, _DELTA],
        table[:, 13],
        table[:, 8],
        table[:, 6] & LOG_APPEND_TIME,
        table[:, _LATEST],
    )
    return np.stack(columns, 1)


def _inside(table: NDArray[np.int64], bounds: RecordRange) -> NDArray[np.bool_]:
    """Return a mask of the batches that may have records in the bounds."""
    last = table[:, _BASE] + table[:, _DELTA]
    mask: NDArray[np.bool_] = np.ones(len(table), np.bool_)
    if bounds.start_offset is not None:
        mask &= last >= bounds.start_offset
    if bounds.end_offset is not None:
        mask &= table[:, _BASE] < bounds.end_offset
    if bounds.since_ms is not None:
        mask &= table[:, _LATEST] >= bounds.since_ms
    return mask


def _raise(data: Buffer, header: BatchHeader, start: int, end: int) -> None:
    """Raise the error of the Python code for these records."""
    for _ in decode_records(bytes(data[start:end]), header):
        pass
    raise CorruptBatch(f"the {end - start} bytes are not {header.record_count} whole records")


class _ChunkArrays:
    """The arrays of one piece, in the order in which `reading.decode` takes them."""

    def __init__(self, limits: ChunkLimits) -> None:
        rows = min(limits.rows_max, _ROWS_FIRST)
        data = min(limits.bytes_max, _DATA_FIRST_MAX) + _DATA_SLACK
        self.arrays: list[NDArray[Any]] = [
            np.empty(rows, np.int64), np.empty(rows, np.int64),
            _ends(rows), _bits(rows), np.empty(data, np.uint8),
            _ends(rows), _bits(rows), np.empty(data, np.uint8),
            _ends(rows), _ends(_HEADERS_FIRST), np.empty(_HEADER_BYTES_FIRST, np.uint8),
            _ends(_HEADERS_FIRST), _bits(_HEADERS_FIRST), np.empty(_HEADER_BYTES_FIRST, np.uint8),
        ]  # fmt: skip

    def grow(self, need: NDArray[np.int64]) -> None:
        """Grow the arrays that are shorter than `need` to twice that length."""
        rows, keys, values, headers, names, header_values = need[:6].tolist()
        lengths = (
            rows, rows, rows + 1, _bit_bytes(rows), keys, rows + 1, _bit_bytes(rows), values,
            rows + 1, headers + 1, names, headers + 1, _bit_bytes(headers), header_values,
        )  # fmt: skip
        for number, (array, length) in enumerate(zip(self.arrays, lengths, strict=True)):
            if length > len(array):
                grown = np.zeros(2 * length, array.dtype)
                grown[: len(array)] = array
                self.arrays[number] = grown

    def piece(self, state: NDArray[np.int64], runs: list[tuple[int, Any]]) -> ColumnChunk:
        import pyarrow as pa

        offsets, times, key_ends, key_bits, keys, value_ends, value_bits, values, list_ends, *rest = self.arrays
        name_ends, names, header_ends, header_bits, header_values = rest
        rows, key_bytes, value_bytes, headers, name_bytes, header_bytes = state[
            decode_kernels.ROWS : decode_kernels.KEY_NULLS
        ].tolist()
        key_nulls, value_nulls, header_nulls = state[decode_kernels.KEY_NULLS : decode_kernels.NEED].tolist()
        return ColumnChunk(
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets[:rows])], 0),
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(times[:rows])], 0),
            _binary(rows, key_nulls, key_bits, key_ends, keys[:key_bytes]),
            _binary(rows, value_nulls, value_bits, value_ends, values[:value_bytes]),
            headers_of(
                pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(list_ends[: rows + 1])], 0),
                _text(_binary(headers, 0, header_bits, name_ends, names[:name_bytes])),
                _binary(headers, header_nulls, header_bits, header_ends, header_values[:header_bytes]),
            ),
            runs,
        )


def _ends(count: int) -> NDArray[np.int32]:
    ends: NDArray[np.int32] = np.empty(count + 1, np.int32)
    ends[0] = 0
    return ends


def _bit_bytes(count: int) -> int:
    return (count + 7) // 8


def _bits(count: int) -> NDArray[np.uint8]:
    return np.zeros(_bit_bytes(count), np.uint8)


def _binary(
    rows: int, nulls: int, bits: NDArray[np.uint8], ends: NDArray[np.int32], data: NDArray[np.uint8]
) -> pa.Array:
    import pyarrow as pa

    valid = pa.py_buffer(bits[: _bit_bytes(rows)]) if nulls else None
    return pa.Array.from_buffers(pa.binary(), rows, [valid, pa.py_buffer(ends[: rows + 1]), pa.py_buffer(data)], nulls)


def _text(names: pa.Array) -> pa.Array:
    """Return names as strings. If one is not UTF-8, all are decoded again with replacements."""
    import pyarrow as pa

    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


# --- columns to records


class CompiledBatchEncoder:
    """Fills batch builders with rows. `batch_bytes`, `batch_records`: as for `encode_batches`."""

    def __init__(self, rows: EncodeColumns, batch_bytes: int, batch_records: int) -> None:
        self._most = batch_records, max(batch_bytes - BATCH_OVERHEAD, 0)
        self._out: NDArray[np.uint8] = np.empty(min(self._most[1], _OUT_FIRST_MAX), np.uint8)
        key, value, names, contents = map(_buffers, (rows.key, rows.value, rows.names, rows.contents))
        lists = _NO_LISTS if rows.lists is None else _list_buffers(rows.lists)
        self._columns = (
            _numbers(rows.time.buffers()[1], np.int64, rows.time.offset, len(rows.time)),
            *key[:3], *value[:3], *lists[:2], names[0], names[2], *contents[:3],
            np.array([key[3], value[3], lists[2], contents[3]], np.int64),
        )  # fmt: skip

    def fill(self, builder: BatchBuilder, at: int) -> bool:
        """Append the rows from `at` on that fit into one batch.

        Returns: False: a row is invalid and the builder unchanged; the Python engine raises the
        error.
        """
        while True:
            count, size, base_time, max_time = encode_kernels.encode(*self._columns, at, *self._most, self._out)
            if count:
                break
            self._out = np.empty(max(size, 2 * len(self._out)), np.uint8)
        if count > 0:
            builder.append_encoded(memoryview(self._out[:size]), count, base_time, max_time)
        return bool(count > 0)


def hash_all(kernel: str, column: pa.Array, hashes: NDArray[np.uint32]) -> bool:
    """Fill `hashes` by a kernel of `hash_kernels`. Returns: False: the column's offsets exceed its
    data.
    """
    if not len(column):
        return True
    ends, _, data, _ = _buffers(column)
    return bool(getattr(hash_kernels, kernel)(ends, data, hashes))


def _buffers(column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8], int]:
    """Return (offsets, validity bits, data, index of the first value in the bits) of a binary
    column.
    """
    valid, ends, data = column.buffers()
    return (
        _numbers(ends, np.int32, column.offset, len(column) + 1),
        view(valid or b""),
        view(data or b""),
        column.offset,
    )


def _list_buffers(lists: pa.ListArray) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    valid, ends = lists.buffers()[:2]
    return _numbers(ends, np.int32, lists.offset, len(lists) + 1), view(valid or b""), lists.offset


def _numbers(buffer: pa.Buffer | None, kind: type[Number], first: int, count: int) -> NDArray[Number]:
    """Return `count` numbers of a column's buffer, read-only; none of a missing buffer."""
    column: NDArray[Number] = np.frombuffer(buffer or b"", kind)[first : first + count]
    column.flags.writeable = False
    return column


_NO_LISTS = _numbers(None, np.int32, 0, 0), view(b""), 0
