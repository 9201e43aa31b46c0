"""The kernels with bounds checks: malformed batches never make them leave an array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
pytestmark = pytest.mark.timeout(300)  # the first run compiles

_CHECKED = """
import random
from array import array
import numpy as np
from crc32c import crc32c
from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction import compiled_engine, kernels
from kqueue.log.formats.filenames import CLEANED, LOG, file_name
from kqueue.records.batch import BATCH_OVERHEAD, read_header
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

rng = random.Random(7)
records = [Record(n, n, b"%d" % (n % 9), b"v" * n, (("h", b"x"),), -1) for n in range(20)]
whole = bytes(build_batch(records))
header = read_header(whole)
refused = taken = 0
for _ in range(1500):
    data = bytearray(whole[BATCH_OVERHEAD:])
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    data = bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))])
    offset_map = compiled_engine.ENGINE.make_map(24 * 40, 0.9)
    for start in (0, 2**60):
        try:
            offset_map.end_offset = compiled_engine.index_records(offset_map, data, header, 0)
            offset_map.start_offset = start
            compiled_engine.kept(offset_map, data, header, 0, True)
        except CorruptBatch:
            refused += 1
    chunk = bytearray(whole[:BATCH_OVERHEAD] + data)
    chunk[8:12] = (len(chunk) - 12).to_bytes(4, "big")
    if rng.random() < 0.2:
        chunk[rng.randrange(12)] = rng.randrange(256)
    chunk[17:21] = crc32c(chunk[21:]).to_bytes(4, "big")
    chunk = bytes(chunk) * 2 + bytes(chunk[: rng.randrange(len(chunk))])
    offset_map = compiled_engine.ENGINE.make_map(24 * 40, 0.9)
    _, offset_map.end_offset = compiled_engine.index_chunk(offset_map, chunk, 0, len(chunk), 0, 0)
    kept = compiled_engine.keep_chunk(offset_map, chunk, 0, len(chunk), 0, 0, array("q", [19]))
    taken += kept.size > 0
assert taken > 100, taken
assert refused > 1000, refused
try:
    kernels.get_key(np.zeros(2, np.uint64), np.zeros(1, np.uint8), np.zeros(1, np.uint64))
except IndexError:
    print("checked")
"""


@pytest.mark.thorough
def test_no_index_leaves_its_array(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """The kernels compiled once more, with a check of every index: damaged batches never trip it,
    and the check is there.
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
