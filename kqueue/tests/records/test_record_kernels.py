"""The compiled kernels read records as `decode_records` does, and refuse what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.records import varints
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from kqueue.records.builder import build_batch
from kqueue.records.record import Record, decode_records
from kqueue.records.varints import encode
from kqueue.tests.records.strategies import record_lists
from kqueue.tests.records.test_varints import unzigzag
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

np = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.records import record_kernels  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles


def read_all(data: bytes, header: BatchHeader) -> list[tuple[int, int, bytes | None]] | None:
    """(offset, timestamp, key) of each record by the kernel; None: a record is invalid."""
    records, pos, delta = [], 0, -1
    for _ in range(header.record_count):
        pos, time_delta, delta, key, key_size = record_kernels.read_record(
            np.frombuffer(data, np.uint8), pos, len(data), delta, header.last_offset_delta
        )
        if pos < 0:
            return None
        key_bytes = None if key_size < 0 else data[key : key + key_size]
        records.append((header.base_offset + delta, header.base_timestamp + time_delta, key_bytes))
    return records if pos == len(data) else None


@settings(max_examples=examples(60), deadline=None)
@given(records=record_lists(gaps=True))
def test_records_are_read_as_by_the_python_code(records: list[Record]) -> None:
    batch = bytes(build_batch(records))
    header = read_header(batch)
    assert read_all(batch[BATCH_OVERHEAD:], header) == [
        (record.offset, record.timestamp, record.key) for record in decode_records(batch[BATCH_OVERHEAD:], header)
    ]


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_whatever_the_kernel_refuses_the_python_code_refuses(data: st.DataObject) -> None:
    """The kernel stops at the key, so it may accept a record with an invalid value."""
    batch = bytes(build_batch([Record(offset, 1_000 + offset, b"key", b"value") for offset in range(3)]))
    header, content = read_header(batch), bytearray(batch[BATCH_OVERHEAD:])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    by_kernel = read_all(bytes(content), header)
    try:
        by_python = [(one.offset, one.timestamp, one.key) for one in decode_records(bytes(content), header)]
    except CorruptBatch:
        return
    assert by_kernel == by_python


@for_each("number", [0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)])
def test_varints_are_read_as_by_the_python_code(number: int) -> None:
    data = np.frombuffer(b"\xff" + encode(number) + b"\xff", np.uint8)
    end = len(data) - 1
    assert record_kernels.read_varlong(data, 1, end) == (number, end)
    assert record_kernels.read_varlong(data, 1, end - 1)[1] == record_kernels.WRONG
    raw, after = record_kernels.read_varint(data, 1, end)
    if -(2**31) <= number < 2**31:
        assert (unzigzag(raw), after) == (number, end)
        assert varints.read_raw(data.tobytes(), 1, 32) == (raw, end)
    else:
        assert after == record_kernels.WRONG


def test_only_the_given_bytes_are_copied() -> None:
    target = np.zeros(10, np.uint8)
    record_kernels.copy_bytes(np.frombuffer(b"abcdef", np.uint8), 1, 3, target, 4)
    record_kernels.copy_bytes(np.frombuffer(b"abcdef", np.uint8), 6, 0, target, 10)
    assert target.tobytes() == bytes(4) + b"bcd" + bytes(3)
