from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import first_offset, scan
from kqueue.records.batch import BatchHeader
from kqueue.storage import File, MemoryStorage
from kqueue.tests.golden import data_folder
from kqueue.tests.log.helpers import batch


def file_of(*parts: bytes | bytearray) -> File:
    file = MemoryStorage().open("a", create=True)
    for part in parts:
        file.append(part)
    return file


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 500), st.booleans(), st.integers(0, 80))
def test_every_whole_batch_is_found_whatever_the_chunks(
    sizes: list[int], chunk_bytes: int, check: bool, cut: int
) -> None:
    batches = [batch(bytes(size)) for size in sizes]
    data = b"".join(batches)
    file = file_of(data[: max(len(data) - cut, 0)])
    found = list(scan(file, 0, file.size, check=check, chunk_bytes=chunk_bytes))
    ends = [position + unit.size for position, unit in found]
    assert [unit.size for _, unit in found] == [len(one) for one in batches][: len(found)]
    assert [position for position, _ in found] == [0, *ends][:-1]
    whole = [
        end for end in (sum(map(len, batches[: number + 1])) for number in range(len(batches))) if end <= file.size
    ]
    assert ends == whole


def test_it_begins_and_ends_where_it_is_told() -> None:
    one, two, three = batch(b"1"), batch(b"22"), batch(b"333")
    file = file_of(one, two, three)
    assert [position for position, _ in scan(file, len(one), len(one) + len(two))] == [len(one)]
    assert [position for position, _ in scan(file, len(one), len(one) + len(two) - 1)] == []


@pytest.mark.parametrize("damage", [(8, b"\xff\xff\xff\xff"), (8, bytes(4)), (16, b"\3"), (16, b"\x80")])
def test_what_is_no_batch_is_corrupt_after_those_before_it(damage: tuple[int, bytes]) -> None:
    one, two = batch(b"1"), batch(b"2")
    two[damage[0] : damage[0] + len(damage[1])] = damage[1]
    found = scan(file_of(one, two), 0, len(one) + len(two))
    assert next(found)[0] == 0
    with pytest.raises(CorruptBatch):
        next(found)


def test_checksums_are_compared_when_asked_for() -> None:
    data = batch(b"hello")
    data[-1] ^= 1
    file = file_of(data)
    assert len(list(scan(file, 0, file.size))) == 1
    with pytest.raises(CorruptBatch, match="checksum"):
        list(scan(file, 0, file.size, check=True))


def test_a_length_beyond_the_file_allocates_nothing() -> None:
    data = batch(b"hello")
    data[8:12] = b"\x7f\xff\xff\xff"
    file = file_of(data)
    assert list(scan(file, 0, file.size, check=True)) == []


@pytest.mark.parametrize("topic", ["v0-none-0", "v0-gzip-0", "v1-none-0", "v1-lz4-0"])
def test_old_formats_are_walked_too(topic: str) -> None:
    path = data_folder("2.8") / topic / "00000000000000000000.log"
    file = file_of(path.read_bytes())
    units = [unit for _, unit in scan(file, 0, file.size, check=True, chunk_bytes=200)]
    assert sum(unit.size for unit in units) == file.size
    assert units[-1].last_offset in (159, 299)
    assert all(first_offset(unit) == unit.last_offset for unit in units)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        list(scan(file_of(data), 0, len(data), check=True))


def test_a_batch_begins_at_its_base_offset() -> None:
    file = file_of(batch(b"1", b"2", base_offset=7))
    (_, unit) = next(scan(file, 0, file.size))
    assert isinstance(unit, BatchHeader)
    assert (first_offset(unit), unit.last_offset) == (7, 8)
