"""Columns that follow from the batches of the rows."""

from __future__ import annotations

import pyarrow as pa

from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.derived_columns import sequences, tag_column, timestamps
from kqueue.records.batch import BatchHeader
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.tests.records.arrow.helpers import one_batch
from kqueue.tests.tables import for_each


def piece_of(*bufs: bytes) -> ColumnChunk:
    decoder = ColumnDecoder(engine="python")
    for number, buf in enumerate(bufs):
        assert not list(decoder.feed(buf, tag=number))
    (piece,) = decoder.finish()
    return piece


def test_tag_column_repeats_a_value_per_batch() -> None:
    piece = piece_of(one_batch(b"a", b"b"), one_batch(b"c", base_offset=2))
    column = tag_column(piece, lambda tag: ("x", None)[tag[0]], pa.string())
    assert column.type == pa.string()
    assert column.to_pylist() == ["x", "x", None]


def test_timestamps_are_utc_and_null_without_a_time() -> None:
    piece = piece_of(one_batch(b"a"), encode_set([Record(1, -1, None, b"b")], 1))
    column = timestamps(piece)
    assert column.type == pa.timestamp("ms", "UTC")
    assert column.cast(pa.int64()).to_pylist() == [1_700_000_000_000, None]


@for_each("base_offset", [0, 5, 2**62])
def test_sequence_column_wraps_and_is_null_in_old_formats(base_offset: int) -> None:
    """They wrap to 0 after 2**31 - 1, and old formats have none."""
    parts = [
        one_batch(b"a", b"b", b"c", base_offset=base_offset, producer_id=1, epoch=0, base_sequence=2**31 - 2),
        one_batch(b"d", base_offset=base_offset + 3),
        encode_set([Record(base_offset + 4, 1, None, b"e")], 0),
    ]
    piece = piece_of(*parts)
    column = sequences(piece, lambda tag: tag[1])
    assert column.type == pa.int32()
    assert column.to_pylist() == [2**31 - 2, 2**31 - 1, 0, None, None]
    assert isinstance(piece.runs[0][1][1], BatchHeader)
    assert sequences(piece_of(parts[1]), lambda tag: tag[1]).to_pylist() == [None]
