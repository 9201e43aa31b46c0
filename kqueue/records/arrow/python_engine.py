"""Plain Python engine: builds chunks where numba is not installed, and of message sets.

Tests compare the compiled engine with it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kqueue.records.arrow.contract import BatchSpan, ChunkLimits, ColumnChunk, RecordRange, check_offsets
from kqueue.records.codecs import Buffer
from kqueue.records.record import Headers, Record, decode_records

if TYPE_CHECKING:
    import pyarrow as pa

ROW_BYTES = 100  # approximate memory of a row without key, value and headers
NULL_BYTES = 8
HEADER_OVERHEAD = 16


class PythonChunkBuilder:
    """Builds chunks from `Record` objects; see `ChunkBuilder`."""

    def __init__(self, limits: ChunkLimits) -> None:
        self.at = 0
        self._limits = limits
        self._clear()

    def _clear(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[list[tuple[bytes, bytes | None]]] = []
        self._runs: list[tuple[int, Any]] = []
        self._size = 0
        self._sizes = [0, 0, 0, 0]  # bytes of keys, values, header names, header values

    def add(self, data: Buffer, spans: Sequence[BatchSpan], bounds: RecordRange) -> Iterator[ColumnChunk]:
        for self.at, span in enumerate(spans):
            check_offsets(span.header)
            yield from self._add(decode_records(bytes(data[span.start : span.end]), span.header), span.tag, bounds)

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
        """Add none: the decoder adds small batches like all others."""
        yield from ()
        return pos, next_offset

    def add_records(self, records: Sequence[Record], tag: Any, bounds: RecordRange) -> Iterator[ColumnChunk]:
        yield from self._add(records, tag, bounds)

    def _add(self, records: Iterable[Record], tag: Any, bounds: RecordRange) -> Iterator[ColumnChunk]:
        limits, before = self._limits, len(self._offsets)
        try:
            for record in records:
                if not bounds.take(record.offset, record.timestamp):
                    continue
                headers = [(_raw(name), value) for name, value in record.headers] if record.headers else []
                sizes = self._sizes_with(record, headers)
                if self._offsets and max(sizes) > limits.data_max:
                    yield self._cut(tag, before)
                    before, sizes = 0, self._sizes_with(record, headers)
                self._append(record, headers, sizes)
                if len(self._offsets) >= limits.rows_max or self._size >= limits.bytes_max:
                    yield self._cut(tag, before)
                    before = 0
        finally:
            self._run(tag, before)

    def _sizes_with(self, record: Record, headers: list[tuple[bytes, bytes | None]]) -> list[int]:
        keys, values, names, header_values = self._sizes
        keys += len(record.key or b"")
        values += len(record.value or b"")
        for name, value in headers:
            names += len(name)
            header_values += len(value or b"")
        return [keys, values, names, header_values]

    def _append(self, record: Record, headers: list[tuple[bytes, bytes | None]], sizes: list[int]) -> None:
        offset, timestamp, key, value, _, _ = record
        self._offsets.append(offset)
        self._timestamps.append(timestamp)
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(headers)
        self._size += sum(sizes) - sum(self._sizes) + ROW_BYTES + HEADER_OVERHEAD * len(headers)
        self._size += NULL_BYTES * ((key is None) + (value is None))
        self._sizes = sizes

    def _run(self, tag: Any, before: int) -> None:
        if len(self._offsets) > before:
            self._runs.append((len(self._offsets) - before, tag))

    def _cut(self, tag: Any, before: int) -> ColumnChunk:
        self._run(tag, before)
        piece = self.take()
        assert piece is not None, "the chunk has rows"
        return piece

    def take(self) -> ColumnChunk | None:
        if not self._offsets:
            return None
        import pyarrow as pa

        piece = ColumnChunk(
            pa.array(self._offsets, pa.int64()),
            pa.array(self._timestamps, pa.int64()),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            _headers_array(self._headers),
            self._runs,
        )
        self._clear()
        return piece


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _headers_array(rows: list[list[tuple[bytes, bytes | None]]]) -> pa.Array:
    import pyarrow as pa

    ends = [0]
    for headers in rows:
        ends.append(ends[-1] + len(headers))
    names = pa.array([name.decode("utf-8", "replace") for headers in rows for name, _ in headers], pa.string())
    values = pa.array([value for headers in rows for _, value in headers], pa.binary())
    return headers_of(pa.array(ends, pa.int32()), names, values)


def headers_of(ends: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    """Return the column of headers.

    Args: ends: int32, one more than there are rows. names: string. values: binary.
    """
    import pyarrow as pa

    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    inside = pa.StructArray.from_arrays([names, values], fields=fields)
    return pa.ListArray.from_arrays(ends, inside)


__all__ = ["Headers", "PythonChunkBuilder", "headers_of"]
