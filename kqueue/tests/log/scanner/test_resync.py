from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.scanner import resync
from kqueue.log.scanner.batch_scanner import parse_batch
from kqueue.log.scanner.resync import batch_at, next_batch
from kqueue.records.batch import stamp
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.storage import MemoryStorage
from kqueue.storage.memory import MemoryFile
from kqueue.tests.log.helpers import START_MS, batch
from kqueue.tests.steps import steps
from kqueue.tests.tables import for_each


def file_of(*parts: bytes | bytearray) -> MemoryFile:
    file = MemoryStorage().open("a.log", create=True)
    for part in parts:
        file.append(part)
    return file


def unit(base: int, magic: int = 2, count: int = 2, codec: str = "none") -> bytes:
    values = [b"value-%d" % number for number in range(count)]
    if magic == 2:
        buf = batch(*values, codec=codec)
        stamp(buf, 0, base, 0)
        return bytes(buf)
    records = [Record(base + number, START_MS, b"k", value) for number, value in enumerate(values)]
    return encode_set(records, magic, {"none": 0, "gzip": 1}[codec])


@for_each("codec", ["none", "gzip"])
@for_each("magic", [0, 1, 2])
def test_the_next_batch_is_found_behind_any_garbage(magic: int, codec: str) -> None:
    """S5.3, S3.3: every magic, plain and compressed."""
    rng = random.Random(1)
    for garbage in (b"", b"\x00" * 700, b"\x02" * 100, rng.randbytes(5000), unit(0)[:50], unit(0)[:-1]):
        file = file_of(garbage, unit(7, magic, codec=codec), unit(20))
        assert next_batch(file, 0, file.size, after_offset=4) == len(garbage)


def test_batches_before_the_offset_or_far_beyond_it_are_skipped() -> None:
    first, far, right = unit(3), unit(5 + 2**31), unit(2**31)
    file = file_of(b"x", first, far, right)
    assert next_batch(file, 0, file.size, after_offset=3) == 1 + len(first) + len(far)
    assert next_batch(file, 0, file.size, after_offset=2) == 1
    assert next_batch(file, 0, 1 + len(first) - 1, after_offset=2) is None, "it must lie within the bounds"


def test_offsets_above_four_bytes_are_found() -> None:
    for base in (2**32 - 1, 2**32, 2**40 + 5, 2**62):
        file = file_of(b"junk", unit(base))
        assert next_batch(file, 0, file.size, after_offset=base - 1) == 4


def test_a_batch_whose_checksum_is_wrong_is_none() -> None:
    wrong = bytearray(unit(5))
    wrong[-3] ^= 1
    file = file_of(wrong, unit(9))
    assert batch_at(file, 0, file.size) is None
    assert batch_at(file, len(wrong), file.size) is not None
    assert batch_at(file, file.size, file.size) is None
    assert next_batch(file, 0, file.size, after_offset=-1) == len(wrong)
    assert next_batch(file, 0, len(wrong), after_offset=-1) is None


@given(st.binary(max_size=300), st.integers(0, 200), st.sampled_from([61, 70, 100, 1 << 20]))
def test_any_bytes_before_a_batch(garbage: bytes, base: int, chunk: int) -> None:
    whole = unit(base)
    file = file_of(garbage, whole)
    original, resync.CHUNK_BYTES = resync.CHUNK_BYTES, chunk
    try:
        position = next_batch(file, 0, file.size, after_offset=base - 1)
    finally:
        resync.CHUNK_BYTES = original
    assert position == len(garbage)


def test_hostile_bytes_cost_no_more_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place claims to be a large batch; the search gives up instead of summing them all."""
    header = struct.pack(">qii bIhiqqqhii", 5, 200_000, 0, 2, 1, 0, 0, 0, 0, -1, -1, -1, 1)
    file = file_of(header * 20_000)
    summed = 0

    def count(data: bytes, position: int, size: int, *, check: bool) -> object:
        nonlocal summed
        summed += size
        return parse_batch(data, position, size, check=check)

    monkeypatch.setattr(resync, "parse_batch", count)
    assert next_batch(file, 0, file.size, after_offset=-1) is None
    assert 0 < summed <= resync.WORK_BYTES_MIN + 200_012  # the last may exceed it


def test_lost_sectors_are_skipped_quickly() -> None:
    file = file_of(bytes(16 << 20), unit(1))
    positions = []
    assert steps(lambda: positions.append(next_batch(file, 0, file.size, after_offset=0))) < 10_000
    assert positions == [16 << 20]
