"""What the compiled engine's columns are made of: its own arrays, not copies; what both engines
make is in `test_decoding`.
"""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.records.arrow.contract import BatchSpan, ChunkLimits, RecordRange
from kqueue.records.batch import BATCH_OVERHEAD, read_header
from kqueue.tests.records.arrow.helpers import one_batch

np: Any = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.records.arrow.compiled_engine import CompiledChunkBuilder  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles


def test_columns_are_handed_over_and_not_copied() -> None:
    chunk_builder, batch = CompiledChunkBuilder(ChunkLimits()), one_batch(b"a" * 100, None)
    assert not list(
        chunk_builder.add(batch, [BatchSpan(read_header(batch), BATCH_OVERHEAD, len(batch), None)], RecordRange())
    )
    room = chunk_builder._arrays
    assert room is not None
    addresses = [array.ctypes.data for array in room.arrays]
    piece = chunk_builder.take()
    assert piece is not None
    assert [buffer.address for buffer in piece.value.buffers()] == [addresses[number] for number in (6, 5, 7)]
    assert [piece.offset.buffers()[1].address, piece.timestamp.buffers()[1].address] == addresses[:2]
    assert piece.key.buffers()[0] is None  # no nulls, no bits
    assert chunk_builder.take() is None
    assert chunk_builder._arrays is None  # what is handed over is not written again


def test_bounds_may_change() -> None:
    chunk_builder, batch = CompiledChunkBuilder(ChunkLimits()), one_batch(b"a", b"b", b"c")
    span = BatchSpan(read_header(batch), BATCH_OVERHEAD, len(batch), None)
    for bounds in (RecordRange(start_offset=2), RecordRange(end_offset=1), RecordRange()):
        assert not list(chunk_builder.add(batch, [span], bounds))
    piece = chunk_builder.take()
    assert piece is not None
    assert piece.offset.to_pylist() == [2, 0, 0, 1, 2]
    assert [rows for rows, _ in piece.runs] == [1, 1, 3]
