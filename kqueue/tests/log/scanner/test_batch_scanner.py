from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import (
    BatchScanner,
    CheckLevel,
    CorruptRange,
    Fault,
    ScannedBatch,
    first_offset,
    scan,
    scan_reporting,
)
from kqueue.records.batch import BatchHeader
from kqueue.storage import File, MemoryStorage
from kqueue.tests.golden import data_folder
from kqueue.tests.log.helpers import batch
from kqueue.tests.tables import for_each


def file_of(*parts: bytes | bytearray) -> File:
    file = MemoryStorage().open("a", create=True)
    for part in parts:
        file.append(part)
    return file


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 500), st.sampled_from(CheckLevel), st.integers(0, 80))
def test_every_whole_batch_is_scanned_with_any_chunk_size(
    sizes: list[int], chunk_bytes: int, check: CheckLevel, cut: int
) -> None:
    batches = [batch(bytes(size)) for size in sizes]
    data = b"".join(batches)
    file = file_of(data[: max(len(data) - cut, 0)])
    scanned_batches = list(scan(file, 0, file.size, check=check, chunk_bytes=chunk_bytes))
    ends = [batch.end for batch in scanned_batches]
    assert [batch.header.size for batch in scanned_batches] == [len(one) for one in batches][: len(scanned_batches)]
    assert [batch.position for batch in scanned_batches] == [0, *ends][:-1]
    whole = [
        end for end in (sum(map(len, batches[: number + 1])) for number in range(len(batches))) if end <= file.size
    ]
    assert ends == whole


def test_a_scan_stays_within_its_range() -> None:
    one, two, three = batch(b"1"), batch(b"22"), batch(b"333")
    file = file_of(one, two, three)
    assert [batch.position for batch in scan(file, len(one), len(one) + len(two))] == [len(one)]
    assert [batch.position for batch in scan(file, len(one), len(one) + len(two) - 1)] == []


@for_each("damage", [(8, b"\xff\xff\xff\xff"), (8, bytes(4)), (16, b"\3"), (16, b"\x80")])
def test_invalid_bytes_raise_after_the_batches_before_them(damage: tuple[int, bytes]) -> None:
    one, two = batch(b"1"), batch(b"2")
    two[damage[0] : damage[0] + len(damage[1])] = damage[1]
    batches = scan(file_of(one, two), 0, len(one) + len(two))
    assert next(batches).position == 0
    with pytest.raises(CorruptBatch):
        next(batches)


def test_checksums_are_compared_when_asked_for() -> None:
    data = batch(b"hello")
    data[-1] ^= 1
    file = file_of(data)
    assert len(list(scan(file, 0, file.size))) == 1
    with pytest.raises(CorruptBatch, match="checksum"):
        list(scan(file, 0, file.size, check=CheckLevel.CHECKSUMS))


def test_a_length_beyond_the_file_allocates_nothing() -> None:
    data = batch(b"hello")
    data[8:12] = b"\x7f\xff\xff\xff"
    file = file_of(data)
    assert list(scan(file, 0, file.size, check=CheckLevel.CHECKSUMS)) == []


@for_each("topic", ["v0-none-0", "v0-gzip-0", "v1-none-0", "v1-lz4-0"])
def test_old_formats_are_scanned(topic: str) -> None:
    path = data_folder("2.8") / topic / "00000000000000000000.log"
    file = file_of(path.read_bytes())
    headers = [batch.header for batch in scan(file, 0, file.size, check=CheckLevel.CHECKSUMS, chunk_bytes=200)]
    assert sum(header.size for header in headers) == file.size
    assert headers[-1].last_offset in (159, 299)
    assert all(first_offset(header) == header.last_offset for header in headers)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        list(scan(file_of(data), 0, len(data), check=CheckLevel.CHECKSUMS))


def test_a_batch_begins_at_its_base_offset() -> None:
    file = file_of(batch(b"1", b"2", base_offset=7))
    header = next(scan(file, 0, file.size)).header
    assert isinstance(header, BatchHeader)
    assert (first_offset(header), header.last_offset) == (7, 8)


def test_a_scan_stops_at_the_first_fault_and_continues_where_it_is_set() -> None:
    one, bad, three = batch(b"1"), batch(b"22"), batch(b"333")
    bad[-1] ^= 1
    file = file_of(one, bad, three)
    scanner = BatchScanner(file, 0, file.size, check=CheckLevel.CHECKSUMS)
    assert [item.position for item in scanner] == [0]
    stop = scanner.stop
    assert stop is not None
    assert (stop.position, stop.size, stop.is_truncated, scanner.position) == (len(one), len(bad), False, len(one))
    assert stop.fault.expected.startswith("checksum 0x")
    scanner.position = len(one) + len(bad)
    assert [item.position for item in scanner] == [len(one) + len(bad)]
    assert (scanner.stop, scanner.position) == (None, file.size)
    scanner.position = 0
    assert [item.position for item in scanner] == [0], "back before what was read"


def test_a_reporting_scan_yields_faulty_batches_and_ends_where_no_length_can_be() -> None:
    one, bad, three = batch(b"1"), batch(b"22"), batch(b"333")
    bad[-1] ^= 1
    file = file_of(one, bad, three, bytes(30))
    items = list(scan_reporting(BatchScanner(file, 0, file.size, check=CheckLevel.CHECKSUMS)))
    assert [isinstance(item, ScannedBatch) and item.fault is None for item in items] == [True, False, True, False]
    assert isinstance(items[1], ScannedBatch)
    assert bytes(items[1].raw) == bad
    assert items[3] == CorruptRange(file.size - 30, file.size, "a batch", "length 0, magic 0")
    assert list(scan_reporting(BatchScanner(file, 0, file.size - 35, check=CheckLevel.CHECKSUMS)))[-1] == CorruptRange(
        len(one) + len(bad),
        file.size - 35,
        f"a batch of {len(three)} bytes",
        f"{len(three) - 5} bytes up to the end of the file",
        is_truncated=True,
    )


def test_checksums_of_control_batches_alone() -> None:
    data, control = batch(b"x"), batch(b"\0\0\0\0", transactional=True, producer_id=1, epoch=0, base_sequence=0)
    control[22] |= 0x20
    data[-1] ^= 1
    file = file_of(data, control)
    scanner = BatchScanner(file, 0, file.size, check=CheckLevel.CONTROL_CHECKSUMS)
    assert [item.position for item in scanner] == [0], "the wrong sum of data is not looked at"
    assert scanner.stop is not None
    assert scanner.stop.fault.expected.startswith("checksum")


def test_records_are_decoded_when_asked_for() -> None:
    good, bad = batch(b"1", b"2"), batch(b"1", b"2")
    bad[61] = 0x7E  # the first record's length
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    file = file_of(good, bad)
    assert len(list(scan(file, 0, file.size, check=CheckLevel.CHECKSUMS))) == 2
    scanner = BatchScanner(file, 0, file.size, check=CheckLevel.RECORDS)
    assert [item.record_count for item in scanner] == [2]
    assert scanner.stop is not None
    assert scanner.stop.fault.expected == "a valid batch"


def test_a_bulk_read_consumes_batches_in_the_buffer() -> None:
    parts = [batch(bytes(size)) for size in (10, 20, 3000, 5)]
    file = file_of(*parts)

    def bulk(buf: bytes, at: int, limit: int) -> int:
        assert limit - at == file.size - scanner.position
        size = int.from_bytes(buf[at + 8 : at + 12], "big") + 12
        return size if size < 100 else 0

    scanner = BatchScanner(file, 0, file.size, chunk_bytes=200, bulk=bulk)
    assert [item.header.size for item in scanner] == [len(parts[2])]
    assert scanner.position == file.size


def test_faults_read_as_sentences() -> None:
    assert str(Fault("a batch", "nothing")) == "expected a batch, found nothing"
