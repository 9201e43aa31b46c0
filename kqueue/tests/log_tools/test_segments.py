from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import Fault
from kqueue.log_tools.segments import CHUNK_BYTES, Batch, InvalidBytes, walk
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, stamp
from kqueue.records.message_set import LegacyEntry, encode_entry
from kqueue.storage import File, MemoryStorage
from kqueue.tests.log.helpers import batch
from kqueue.tests.tables import for_each


def file_of(data: bytes) -> File:
    file = MemoryStorage().open("log", create=True)
    file.append(data)
    return file


def walked(data: bytes, *, check: bool = True) -> list[Batch | InvalidBytes]:
    return list(walk(file_of(data), "log", 0, len(data), check=check))


def test_batches_of_all_magics_and_sizes() -> None:
    """S3.3: with and without checksums; one batch is larger than a chunk."""
    parts = [bytes(batch(b"a", b"b")), encode_entry(0, 5, -1, b"k", b"v"), encode_entry(1, 6, 77, None, b"w"),
             bytes(batch(bytes(CHUNK_BYTES + 5))), bytes(batch(b"z"))]  # fmt: skip
    for check in (True, False):
        batches = walked(b"".join(parts), check=check)
        position = 0
        for one, part in zip(batches, parts, strict=True):
            assert isinstance(one, Batch)
            assert (one.position, one.size, one.end, one.is_valid) == (position, len(part), position + len(part), True)
            assert bytes(one.data()) == part
            position += len(part)
        assert [one.magic for one in batches if isinstance(one, Batch)] == [2, 0, 1, 2, 2]
        records = [record for one in batches[1:3] if isinstance(one, Batch) for record in one.records()]
        assert [(record.offset, record.timestamp, record.value) for record in records] == [(5, -1, b"v"), (6, 77, b"w")]


@for_each("check", [True, False])
def test_a_wrong_checksum_is_a_fault_where_it_is_looked_at(check: bool) -> None:
    for data in (bytes(batch(b"abc")), encode_entry(1, 6, 77, None, b"abc")):
        bad = data[:-2] + b"x" + data[-1:] if data[16] == 2 else data[:-1] + b"x"
        (walked_batch,) = walked(bad, check=check)
        assert isinstance(walked_batch, Batch)
        assert walked_batch.is_valid is not check
        if check:
            assert str(walked_batch.problem).startswith("expected checksum 0x")
            with pytest.raises(CorruptBatch, match="^log, position 0: expected checksum 0x"):
                next(walked_batch.records())


def test_a_header_that_can_not_be_is_a_fault() -> None:
    data = batch(b"abc", b"d")
    data[57:61] = (1000).to_bytes(4, "big")
    (walked_batch,) = walked(bytes(data), check=False)
    assert isinstance(walked_batch, Batch)
    assert isinstance(walked_batch.unit, BatchHeader)
    assert walked_batch.unit.record_count == 1000
    assert walked_batch.problem == Fault("a valid batch", "1000 records with a last offset delta of 1")


def test_a_message_whose_lengths_can_not_be_is_a_fault() -> None:
    data = bytearray(encode_entry(0, 9, -1, b"key", b"value"))
    data[18:22] = (100).to_bytes(4, "big")
    (message,) = walked(bytes(data), check=False)
    assert isinstance(message, Batch)
    assert isinstance(message.unit, LegacyEntry)
    assert (message.unit.offset, message.unit.key, message.size) == (9, None, len(data))
    assert message.problem is not None
    assert message.problem.expected == "a valid batch"


@for_each(
    "tail, expected, found, kind",
    [
        (b"\1", "a batch", "the last 1 bytes of the file", (True, False)),
        (bytes(16), "a batch", "the last 16 bytes of the file", (True, False)),
        (bytes(40), "a batch", "40 zero bytes", (True, True)),
        (bytes(39) + b"\1", "a batch", "length 0, magic 0", (False, False)),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(60), "a batch", "length -1, magic 0", (False, False)),
        (bytes(8) + b"\0\0\0\x40" + b"\0\0\0\0\3" + bytes(60), "a batch", "length 64, magic 3", (False, False)),
        (bytes(8) + b"\0\0\0\x30" + b"\0\0\0\0\2" + bytes(60), "a batch", "length 48, magic 2", (False, False)),
        (
            bytes(8) + b"\x7f\xff\xff\xff\0\0\0\0\2" + bytes(60),
            "a batch of 2147483659 bytes",
            "77 bytes up to the end of the file",
            (True, False),
        ),
    ],
)
def test_gaps(tail: bytes, expected: str, found: str, kind: tuple[bool, bool]) -> None:
    first = bytes(batch(b"abc"))
    for check in (True, False):
        whole, gap = walked(first + tail, check=check)
        assert isinstance(whole, Batch)
        assert gap == InvalidBytes(len(first), len(tail), expected, found, *kind)


def test_a_file_that_is_cut_meanwhile() -> None:
    data = bytes(batch(b"abc")) * 2
    file = file_of(data)
    batches_left = walk(file, "log", 0, len(data), check=False)
    first = next(batches_left)
    file.truncate(30)
    assert isinstance(first, Batch)
    assert len(list(first.records())) == 1, "it was read whole"
    file = file_of(data)
    walking = walk(file, "log", 0, len(data) * 2)
    next(walking)
    next(walking)
    gap = next(walking)
    assert isinstance(gap, InvalidBytes)
    assert gap.is_tail


def test_a_batch_that_vanishes_before_its_records_are_read() -> None:
    data = bytes(batch(bytes(CHUNK_BYTES)))
    file = file_of(data)
    (walked_batch,) = walk(file, "log", 0, len(data), check=False)
    file.truncate(BATCH_OVERHEAD)
    assert isinstance(walked_batch, Batch)
    with pytest.raises(CorruptBatch, match=rf"log, position 0: {len(data)} bytes were here, now there are 61"):
        list(walked_batch.records())


def test_batch_exposes_its_header() -> None:
    buf = batch(b"a", b"b", producer_id=3, epoch=0, base_sequence=0, transactional=True)
    stamp(buf, 0, 70, 1)
    (walked_batch,) = walked(bytes(buf))
    assert isinstance(walked_batch, Batch)
    assert (
        walked_batch.base_offset,
        walked_batch.last_offset,
        walked_batch.next_offset,
        walked_batch.is_control,
        walked_batch.is_transactional,
    ) == (
        70,
        71,
        72,
        False,
        True,
    )
    assert repr(walked_batch) == "<batch 70..71 at 0 of log>"
    assert walked_batch.where == "log, position 0"
