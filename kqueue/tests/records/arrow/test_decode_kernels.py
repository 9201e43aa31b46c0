"""The compiled loops stay within their arrays, whatever the bytes; their code is made once, and
found by the next process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.records.arrow.contract import LONG_MAX, LONG_MIN
from kqueue.records.batch import BATCH_OVERHEAD, read_header
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.records.strategies import record_lists
from kqueue.tests.thorough import examples

np: Any = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.records.arrow import decode_kernels  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles

MARGIN = 32


def fenced(count: int, kind: Any) -> tuple[Any, Any]:
    """An array of zeros, and all of what it is the middle of."""
    whole = np.zeros(count + 2 * MARGIN, kind)
    return whole, whole[MARGIN : MARGIN + count]


@pytest.mark.long
@settings(max_examples=examples(200), deadline=None)
@given(
    records=record_lists(gaps=True),
    place=st.floats(0, 1),
    flip=st.integers(0, 255),
    cut=st.booleans(),
    rows=st.integers(1, 12),
    room=st.sampled_from([1, 30, 400, 30_000]),
)
def test_kernels_stay_within_their_buffers(
    records: list[Record], place: float, flip: int, cut: bool, rows: int, room: int
) -> None:
    """The same bytes between different neighbours give the same answer; arrays that are too short
    are not left.
    """
    batch = bytes(build_batch(records))
    data, header = batch[BATCH_OVERHEAD:], read_header(batch)
    at = int(place * (len(data) - 1))
    data = data[:at] if cut else data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
    seen = []
    for filler in (b"\x00", b"\xff", b"\x01", b"\x7f"):
        around = np.frombuffer(filler * MARGIN + data + filler * MARGIN, np.uint8)
        limits = np.array([LONG_MIN, LONG_MAX, LONG_MIN, 0, 0, 100, 10**6, 10**6], np.int64)
        fields = (
            MARGIN,
            MARGIN + len(data),
            header.base_offset,
            header.last_offset_delta,
            header.record_count,
            header.base_timestamp,
            0,
            0,
        )
        state, taken = np.zeros(decode_kernels.STATE, np.int64), np.zeros(1, np.int64)
        lengths = [(rows, np.int64), (rows, np.int64)]
        lengths += 2 * [(rows + 1, np.int32), ((rows + 7) // 8, np.uint8), (room, np.uint8)]
        lengths += [(rows + 1, np.int32), (rows + 1, np.int32), (room, np.uint8)]
        lengths += [(rows + 1, np.int32), ((rows + 7) // 8, np.uint8), (room, np.uint8)]
        arrays = [fenced(*length) for length in lengths]
        answer = decode_kernels.decode(
            around, np.array([fields], np.int64), limits, state, taken, *(middle for _, middle in arrays)
        )
        assert not any(whole[:MARGIN].any() or whole[len(whole) - MARGIN :].any() for whole, _ in arrays)
        state[decode_kernels.POS] = 0
        seen.append((answer, state.tobytes(), taken.tobytes(), [middle.tobytes() for _, middle in arrays]))
    assert seen.count(seen[0]) == len(seen)


_CHECKED = """
import random
import numpy as np
import pyarrow as pa
from crc32c import crc32c
from kqueue.base.errors import CorruptBatch
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.records.arrow import compiled_engine, decode_kernels
from kqueue.records.arrow.contract import ChunkLimits
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.encoder import _rows_of, encode_batches
from kqueue.records.record import Record

compiled_engine._ROWS_FIRST, compiled_engine._HEADERS_FIRST, compiled_engine._HEADER_BYTES_FIRST = 3, 2, 8
compiled_engine._DATA_FIRST_MAX, compiled_engine._DATA_SLACK = 16, 16
rng = random.Random(7)
refused = taken = rows = 0
for number in range(900):
    records = [
        Record(offset, offset, rng.choice((None, b"", b"k" * rng.randrange(30))), rng.choice((None, b"v" * offset)),
               tuple(("h" * rng.randrange(5), rng.choice((None, b"", b"x" * 9))) for _ in range(rng.choice((0, 0, 3)))))
        for offset in range(rng.randrange(1, 20))
    ]
    data = bytearray(build_batch(records))
    if number % 3:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(BATCH_OVERHEAD, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        del data[rng.choice((len(data), rng.randrange(BATCH_OVERHEAD, len(data) + 1))):]
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    limits = ChunkLimits(rng.choice((1, 5, 100)), data_max=rng.choice((20, 10**6)))
    decoder = ColumnDecoder(limits=limits, engine="fast")
    try:
        pieces = list(decoder.feed(data * 2))
        taken += 1
    except CorruptBatch:
        refused += 1
    for piece in decoder.finish():
        rows += piece.rows
        columns = pa.RecordBatch.from_arrays([piece.key, piece.value, piece.headers], ["key", "value", "headers"])
        part = columns.slice(rng.randrange(piece.rows))
        list(encode_batches(part, batch_bytes=rng.choice((1, 200, 10**6)), engine="fast"))
assert taken > 300 and refused > 300 and rows > 1500, (taken, refused, rows)

ends = pa.py_buffer(np.array([0, 1, 2**31 - 1, 2], np.int32))
broken = pa.Array.from_buffers(pa.binary(), 3, [None, ends, pa.py_buffer(b"ab")])
rows = _rows_of(pa.RecordBatch.from_pydict({"key": broken, "value": broken}), 0)
assert not compiled_engine.CompiledBatchEncoder(rows, 1000, 10).fill(BatchBuilder(), 0)
try:
    decode_kernels.decode(*(np.zeros((1, 8) if number == 1 else 0, kind) for number, kind in enumerate(
        [np.uint8, np.int64, np.int64, np.int64, np.int64, np.int64, np.int64] + 2 * [np.int32, np.uint8, np.uint8]
        + [np.int32, np.int32, np.uint8, np.int32, np.uint8, np.uint8])))
except IndexError:
    print("checked")
"""


@pytest.mark.thorough
def test_no_index_leaves_its_array(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """Compiled once more, with a check of every index: damaged batches never trip it, and the check
    is there.
    """
    cache = getattr(pytestconfig, "cache", None)
    compiled = (
        cache.mkdir("numba-checked") if cache is not None else tmp_path
    )  # only the first run after a change takes its time
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1", "NUMBA_CACHE_DIR": str(compiled)}
    program = subprocess.run(
        [sys.executable, "-c", _CHECKED], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert (program.returncode, program.stdout.strip()) == (0, "checked"), program.stderr


_TWICE = """
import pyarrow as pa
from kqueue.records.arrow import decode_kernels, encode_kernels
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.encoder import encode_batches
(encoded,) = encode_batches(pa.table({"value": ["a", None]}), engine="fast")
decoder = ColumnDecoder(engine="fast")
for batch in (encoded.batch, bytes(encoded.batch), memoryview(encoded.batch)):
    list(decoder.feed(batch))
columns = {"value": pa.array([b"a"]), "key": ["x"], "timestamp": pa.array([1], pa.timestamp("us"))}
list(encode_batches(pa.table(columns), engine="fast"))
for kernel in (decode_kernels.decode, encode_kernels.encode):
    print(len(kernel.signatures), sum(kernel.stats.cache_misses.values()))
"""


@pytest.mark.long
def test_each_is_compiled_once_and_found_by_the_next_process() -> None:
    """One kind of arrays, wherever the bytes come from; what one process has compiled is there for
    others.
    """
    for _ in range(2):  # the first one may have to compile
        program = subprocess.run(
            [sys.executable, "-c", _TWICE], capture_output=True, text=True, timeout=240, check=True
        ).stdout.split()
        if program[1::2] == ["0", "0"]:
            break
    assert program == ["1", "0", "1", "0"]
