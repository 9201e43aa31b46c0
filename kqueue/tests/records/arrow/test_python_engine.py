"""The plain engine by itself; what it makes of batches is in `test_decoding`."""

from __future__ import annotations

from kqueue.records.arrow.contract import ChunkLimits, RecordRange
from kqueue.records.arrow.python_engine import PythonChunkBuilder
from kqueue.records.record import Record


def test_records_that_were_decoded_elsewhere() -> None:
    chunk_builder = PythonChunkBuilder(ChunkLimits(rows_max=2))
    records = [Record(number, 7, b"k", None, (("h", None),)) for number in range(5)]
    (piece,) = chunk_builder.add_records(records, "tag", RecordRange(start_offset=1, end_offset=4))
    assert (piece.offset.to_pylist(), piece.runs) == ([1, 2], [(2, "tag")])
    left = chunk_builder.take()
    assert left is not None
    assert (left.offset.to_pylist(), left.runs) == ([3], [(1, "tag")])
    assert left.headers.to_pylist() == [[{"key": "h", "value": None}]]
    assert chunk_builder.take() is None
