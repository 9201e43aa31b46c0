"""S5.2: sealed segments as compaction reads them: every byte that is wrong is found and placed."""

from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.segment_reader import SegmentReader
from kqueue.log.compaction.throttle import Throttle
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.records.message_set import LegacyEntry, encode_entry, encode_set, legacy_codec
from kqueue.storage import MemoryStorage
from kqueue.tests.tables import for_each

RECORDS = [Record(offset, 1000 + offset, b"key-%d" % offset, b"value" * offset) for offset in range(12)]


def data_of_all_kinds() -> bytes:
    return b"".join(
        (
            encode_set(RECORDS[0:2], 0),
            encode_set(RECORDS[2:4], 0, 1),
            encode_set(RECORDS[4:6], 1, 2),
            encode_set(RECORDS[6:7], 1),
            build_batch(RECORDS[7:9]),
            build_batch(RECORDS[9:12], codec="lz4"),
        )
    )


def walk(
    data: bytes, *, size: int | None = None, base: int = 0, end: int = 12, chunk_bytes: int = 100
) -> SegmentReader:
    storage = MemoryStorage()
    file = storage.open("log", create=True)
    file.append(data)
    throttle = Throttle(float("inf"), lambda seconds: None, lambda: 0.0)
    return SegmentReader(file, "log", len(data) if size is None else size, base, end, chunk_bytes, throttle)


def records(reader: SegmentReader) -> list[Record]:
    read: list[Record] = []
    for batch in reader:
        if isinstance(batch.header, LegacyEntry):
            read += batch.messages(1 << 20)
        else:
            assert bytes(batch.raw[:8]) == batch.header.base_offset.to_bytes(8, "big")
            read += [
                RECORDS[batch.header.base_offset + at]
                for at in range(batch.header.record_count)
                if batch.records_data(1 << 20)
            ]
    return read


@for_each("chunk_bytes", [1, 61, 100, 10_000])
def test_batches_of_all_formats_are_read_with_any_chunk_size(chunk_bytes: int) -> None:
    batches_read = records(walk(data_of_all_kinds(), chunk_bytes=chunk_bytes))
    assert [(record.offset, record.key, record.value) for record in batches_read] == [
        (one.offset, one.key, one.value) for one in RECORDS
    ]


def test_every_flipped_bit_that_a_sum_covers_is_found() -> None:
    data = data_of_all_kinds()
    whole = walk(data)
    starts = [(whole.position, batch.header.magic) for batch in whole]
    for position in range(len(data)):
        start, magic = next(one for one in reversed(starts) if one[0] <= position)
        if position - start < 8 or (magic == 2 and 12 <= position - start < 16):
            continue  # offset and leader epoch are stamped by brokers, no sum covers them
        wrong = bytearray(data)
        wrong[position] ^= 1 << position % 8
        damaged = walk(bytes(wrong))
        with pytest.raises(CorruptBatch) as caught:
            records(damaged)
        assert f"log, batch at position {start}: " in str(damaged.located(caught.value))


def test_a_file_that_is_shorter_than_it_was_or_ends_within_a_batch_is_refused() -> None:
    data = data_of_all_kinds()
    with pytest.raises(CorruptBatch, match="the last 0 bytes of the file"):
        records(walk(data, size=len(data) + 1))
    for end in (len(data) - 1, len(data) - 100, 5):
        with pytest.raises(CorruptBatch, match="bytes up to the end of the file|bytes of the file"):
            records(walk(data[:end]))
    with pytest.raises(CorruptBatch, match="expected a batch of 2147483659 bytes, found 117 bytes"):
        records(walk(bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\x02" + bytes(100)))


def test_offsets_have_to_rise() -> None:
    with pytest.raises(CorruptBatch, match="offsets have to rise: 7 follows 8"):
        records(walk(bytes(build_batch(RECORDS[7:9])) * 2))
    with pytest.raises(CorruptBatch, match="offsets have to rise: 7 follows 9"):
        records(walk(bytes(build_batch(RECORDS[7:9])), base=10))


def test_offsets_have_to_stay_within_their_segment() -> None:
    data = bytearray(build_batch(RECORDS[7:9]))
    assert len(records(walk(bytes(data), end=9))) == 2
    with pytest.raises(CorruptBatch, match="offset 8 lies beyond the end of its segment at 8"):
        records(walk(bytes(data), end=8))
    data[0] ^= 0x7F  # the checksum does not cover it
    with pytest.raises(CorruptBatch, match="lies beyond the end of its segment at 12"):
        records(walk(bytes(data)))


@for_each("offsets", [(5, 5), (6, 5), (4, 7)])
def test_offsets_inside_of_a_wrapper_have_to_rise_to_its_own(offsets: tuple[int, int]) -> None:
    inside = b"".join(encode_entry(0, offset, -1, b"k", b"v") for offset in offsets)
    wrapper = encode_entry(0, 6, -1, None, legacy_codec(1, 0).compress(inside), 1)
    with pytest.raises(CorruptBatch, match="offsets in a wrapper have to rise to its own, 6"):
        records(walk(wrapper))
