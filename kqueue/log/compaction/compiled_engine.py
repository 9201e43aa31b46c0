"""The compiled engine: `offset_map` and `python_engine` on top of `kernels`. Importing it needs
`kqueue[fast]`.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction import kernels
from kqueue.log.compaction.engine import CompactionEngine, RetainedChunk
from kqueue.log.compaction.offset_map import WINDOW_OFFSETS, OffsetMap
from kqueue.log.compaction.python_engine import NOTHING, RetainedRecords
from kqueue.records.batch import BatchHeader

_OFFSET_MAX = 2**62
_ROWS = 16_384  # batches per call, at most
_RECORD_BYTES_MIN = 5  # what kernels decode: length, attributes, timestamp, offset, key's length


class CompiledOffsetMap(OffsetMap):
    """An `OffsetMap` that kernels read and write. Memory: pages count once they are used."""

    __slots__ = ("fields", "out", "rows", "seed", "stage")

    def _allocate(self, slots: int) -> None:
        self.fields: NDArray[np.uint64] = np.zeros(slots * kernels.FIELDS, np.uint64)
        self.stage: NDArray[np.uint64] = np.zeros((kernels.STAGED, 4), np.uint64)
        self.rows: NDArray[np.int64] = np.zeros((_ROWS, 3), np.int64)
        self.out: NDArray[np.uint8] = np.zeros(0, np.uint8)
        # the result of a compaction does not depend on it
        self.seed = np.frombuffer(secrets.token_bytes(16), np.uint64)

    def put_all(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int) -> int:
        processed = 0
        for key, delta in zip(keys, deltas, strict=True):
            if key is not None:
                count = kernels.put_key(
                    self.fields, _view(key), base_offset + delta, self.count, self.capacity, self.seed
                )
                if count < 0:
                    break
                self.count = count
            processed += 1
        self.records += processed
        return processed

    def get_all(self, keys: Sequence[bytes | None]) -> list[int]:
        return [-1 if key is None else kernels.get_key(self.fields, _view(key), self.seed) for key in keys]

    def window_at(self, offset: int) -> tuple[NDArray[np.uint8], int]:
        """Return the window of `latest_in` that holds this offset, and its first offset; no bytes:
        there is none.
        """
        if self.latest_in(offset, offset + 1) is None:
            return _view(b""), 0
        return _view(self._window), self._window_start

    def output_buffer(self, size: int) -> NDArray[np.uint8]:
        """Return a buffer of `size` bytes, reused between calls."""
        if len(self.out) < size:
            self.out = np.zeros(size, np.uint8)
        return self.out[:size]

    def _move_window(self, start: int) -> None:
        window = bytearray(min(WINDOW_OFFSETS, self.end_offset - start))
        kernels.mark_latest(self.fields, start, np.frombuffer(window, np.uint8))
        self._window, self._window_start = window, start


def index_records(offset_map: OffsetMap, data: bytes, header: BatchHeader, first_offset: int) -> int:
    """See `scanning.index_records`; the map is a `CompiledOffsetMap`, and holds a part of the batch
    after CorruptBatch.
    """
    assert isinstance(offset_map, CompiledOffsetMap)
    if not 0 <= header.base_offset <= _OFFSET_MAX:
        raise CorruptBatch(f"expected a base offset from 0 to 2**62, found {header.base_offset}")
    count, processed, full_at = kernels.index_batch(
        offset_map.fields, offset_map.stage, offset_map.seed, offset_map.count, offset_map.capacity,
        _view(data), header.record_count, header.base_offset, header.last_offset_delta, first_offset,
    )  # fmt: skip
    if count < 0:
        raise _corrupt(data, header)
    offset_map.count = count
    offset_map.records += processed
    return header.next_offset if full_at < 0 else int(full_at)


def kept(
    offset_map: OffsetMap, data: bytes, header: BatchHeader, start_offset: int, keep_tombstones: bool
) -> RetainedRecords:
    """See `scanning.kept`; the map is a `CompiledOffsetMap`."""
    assert isinstance(offset_map, CompiledOffsetMap)
    base_offset, count, end_offset = header.base_offset, header.record_count, offset_map.end_offset
    marks = offset_map.latest_in(base_offset, header.next_offset) if base_offset >= start_offset else None
    if marks is not None:
        if 1 not in marks:
            return NOTHING
        return _pick(data, header, _view(marks), True, keep_tombstones)
    if count * _RECORD_BYTES_MIN > len(data):  # before memory is allocated for them
        raise _corrupt(data, header)
    stay: NDArray[np.uint8] = np.zeros(count, np.uint8)
    count_kept = kernels.mark_retained(
        offset_map.fields, offset_map.stage, offset_map.seed,
        _view(data), count, base_offset, header.last_offset_delta, start_offset, end_offset, stay,
    )  # fmt: skip
    if count_kept < 0:
        raise _corrupt(data, header)
    if count_kept == 0:
        return NOTHING
    return _pick(data, header, stay, False, keep_tombstones or header.last_offset >= end_offset)


def _pick(
    data: bytes, header: BatchHeader, stay: NDArray[np.uint8], by_delta: bool, keep_tombstones: bool
) -> RetainedRecords:
    out: NDArray[np.uint8] = np.empty(len(data), np.uint8)
    count, filled, latest, tombstones = kernels.keep_records(
        _view(data), header.record_count, header.last_offset_delta, stay, by_delta, keep_tombstones, out
    )
    if count < 0:
        raise _corrupt(data, header)
    if count == 0:
        return NOTHING
    max_timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + int(latest)
    return RetainedRecords(
        count, data if count == header.record_count else out[:filled].tobytes(), max_timestamp, bool(tombstones)
    )


def index_chunk(
    offset_map: OffsetMap, buf: bytes, at: int, limit: int, next_offset: int, first_offset: int
) -> tuple[int, int]:
    """See `CompactionEngine`."""
    assert isinstance(offset_map, CompiledOffsetMap)
    stopped, next_offset, count, put = kernels.index_chunk(
        offset_map.fields, offset_map.stage, offset_map.seed, offset_map.count, offset_map.capacity,
        _view(buf), at, limit, next_offset, first_offset,
    )  # fmt: skip
    offset_map.count = count
    offset_map.records += put
    return stopped - at, next_offset


def keep_chunk(
    offset_map: OffsetMap,
    buf: bytes,
    at: int,
    limit: int,
    next_offset: int,
    start_offset: int,
    last_offsets: array[int],
) -> RetainedChunk:
    """See `CompactionEngine`."""
    assert isinstance(offset_map, CompiledOffsetMap)
    marks, marks_start = offset_map.window_at(next_offset)
    out, rows = offset_map.output_buffer(len(buf)), offset_map.rows
    stopped, next_offset, written, read, kept, is_same = kernels.keep_chunk(
        offset_map.fields, offset_map.seed, marks, marks_start,
        _view(buf), at, limit, next_offset, start_offset, offset_map.end_offset,
        np.frombuffer(last_offsets, np.int64), out, rows,
    )  # fmt: skip
    return RetainedChunk(
        stopped - at, next_offset, memoryview(out), [tuple(row) for row in rows[:written].tolist()], read, kept, is_same
    )


def _view(data: bytes | bytearray) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _corrupt(data: bytes, header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(
        f"the {len(data)} bytes of records at offset {header.base_offset} are not {header.record_count} whole records"
    )


ENGINE = CompactionEngine("fast", CompiledOffsetMap, index_records, kept, index_chunk, keep_chunk)
