"""Small batches as compiled code sees them: the header and checksum of `kqueue.records.batch`, or
nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import check_crc, read_header
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.records.strategies import record_lists
from kqueue.tests.thorough import examples

np: Any = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.records import batch_kernels  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles


def test_checksums_of_small_batches() -> None:
    """Against the library that counts them elsewhere, at every length around the step of eight."""
    data = bytes(range(256)) * 3
    view = np.frombuffer(data, np.uint8)
    for start, end in [(0, 0), *((start, start + size) for start in (0, 3) for size in range(1, 40)), (5, 700)]:
        assert batch_kernels.checksum(view, start, end) == crc32c(data[start:end])


@settings(max_examples=examples(200), deadline=None)
@given(
    records=record_lists(gaps=True),
    place=st.integers(0, 70),
    flip=st.sampled_from([0, 0, 1, 0x80, 0xFF]),
    cut=st.sampled_from([0, 0, 1, 80]),
    check=st.booleans(),
)
def test_small_batch_agrees_with_the_plain_reader(
    records: list[Record], place: int, flip: int, cut: int, check: bool
) -> None:
    """One that the plain way would take, too, with the same numbers."""
    batch = bytearray(build_batch(records))
    batch[min(place, len(batch) - 1)] ^= flip
    batch = batch[: len(batch) - cut]
    allowed = 0x48
    wanted = (0, 0, 0, 0)
    try:
        header = read_header(batch)
        if check:
            check_crc(batch, 0, header)
        if header.size <= min(len(batch), batch_kernels.SMALL_BYTES) and not header.attributes & ~allowed:
            wanted = header.size + 3, header.base_offset, header.last_offset_delta, header.record_count
    except CorruptBatch:
        pass
    around = np.frombuffer(b"\xff" * 3 + batch, np.uint8)
    assert batch_kernels.small_batch(around, 3, allowed, check) == wanted


def test_numbers_are_written_big_endian() -> None:
    data = np.zeros(10, np.uint8)
    for size, number in ((1, -1), (2, -300), (4, 2**31 - 1), (8, -(2**63))):
        batch_kernels.put_number(data, 1, size, number)
        assert (
            int.from_bytes(data[1 : 1 + size].tobytes(), "big", signed=True)
            == batch_kernels.number_at(data, 1, size)
            == number
        )
