"""Comparable output of the engines, and valid and damaged batches for tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any, Literal

import pytest
from crc32c import crc32c
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.records.arrow.contract import ChunkLimits, ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, iter_batches
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.codecs import Buffer
from kqueue.records.record import Record
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists

EngineName = Literal["python", "fast"]
HAS_FAST = importlib.util.find_spec("numba") is not None
NEEDS_FAST = pytest.mark.skipif(not HAS_FAST, reason="kqueue[fast] is not installed")
ENGINES = ["python", "fast"] if HAS_FAST else ["python"]
Found = tuple[list[Any], str | None, int | None]


def content(piece: ColumnChunk) -> list[Any]:
    """Everything in a piece; as Arrow has checked it."""
    for column in piece[:5]:
        column.validate(full=True)
        assert len(column) == piece.rows
    return [column.to_pylist() for column in piece[:5]] + [piece.runs]


def decoded(
    engine: EngineName,
    buf: Buffer,
    bounds: RecordRange | None = None,
    limits: ChunkLimits | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    check: bool = True,
) -> Found:
    """(content of each piece, what CorruptBatch said, the next offset)."""
    decoder, pieces, failure = ColumnDecoder(bounds, limits, engine=engine, check=check), [], None
    try:
        pieces += map(content, decoder.feed(buf, aborted=aborted, tag="t"))
    except CorruptBatch as error:
        failure = str(error)
    pieces += map(content, decoder.finish())
    return pieces, failure, decoder.next_offset


def in_rows(chunks: Found) -> list[tuple[Any, ...]]:
    """(offset, time, key, value, headers) of all pieces."""
    return [row for piece in chunks[0] for row in zip(*piece[:5], strict=True)]


def as_row(record: Record) -> tuple[Any, ...]:
    headers = [
        {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for name, value in record.headers
    ]
    return record.offset, record.timestamp, record.key, record.value, headers


def one_batch(*values: bytes | None, base_offset: int = 0, **settings: Any) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, **settings)
    for number, value in enumerate(values):
        builder.append(1_700_000_000_000 + number, b"%d" % number, value)
    return bytes(builder.build())


def with_records(batch: bytes, records: bytes) -> bytes:
    """The batch with other bytes in place of its records, its length and checksum made to fit."""
    made = bytearray(batch[:BATCH_OVERHEAD] + records)
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    return signed(made)


def signed(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


KINDS = st.fixed_dictionaries(
    {"codec": st.sampled_from(("none", "none", "none", *CODEC_NAMES))},
    optional={
        "timestamp_type": st.just(1),
        "transactional": st.booleans(),
        "control": st.sampled_from([False, False, True]),
        "producer_id": st.sampled_from([1, 2]),
        "base_sequence": st.sampled_from([0, 2**31 - 3]),
        "delete_horizon_ms": st.just(1_650_000_000_000),
    },
)


@st.composite
def logs(draw: st.DrawFn, batches_max: int = 6) -> bytes:
    """Batches of all kinds, one after another, offsets rising, with gaps."""
    parts, start = [], draw(st.sampled_from([0, 7, 2**40, 2**62]))
    for _ in range(draw(st.integers(1, batches_max))):
        records = draw(record_lists(gaps=True))
        moved = [record._replace(offset=record.offset - records[0].offset + start) for record in records]
        parts.append(bytes(build_batch(moved, **draw(KINDS))))
        start = moved[-1].offset + 1 + draw(st.sampled_from([0, 0, 5]))
    return b"".join(parts)


def headers_of(buf: bytes) -> list[Any]:
    return [header for _, header in iter_batches(buf)]


def replaced(buf: bytes, pos: int, **fields: int) -> bytes:
    """The batch at `pos` with other fields in its header, which is signed anew."""
    header = dict(iter_batches(buf))[pos]
    made = bytearray(buf[pos : pos + header.size])
    HEADER.pack_into(made, 0, *header._replace(**fields))
    return buf[:pos] + signed(made) + buf[pos + header.size :]
