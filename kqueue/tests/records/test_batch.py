from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, KqueueError, UnsupportedCodec
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    HEADER,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    set_log_append_time,
    set_max_timestamp,
    set_producer,
    stamp,
)
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.record import Record
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

RECORDS = [
    Record(5 + number, 1000 + number, b"key %d" % number, b"value " * number, (("h", b"x"), ("n", None)))
    for number in range(4)
]
CRC_START = 21


def changed(batch: bytes | bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, and its checksum as it was."""
    header = read_header(batch)._replace(**fields)
    return bytearray(HEADER.pack(*header) + batch[BATCH_OVERHEAD:])


def test_batches_one_after_another_up_to_a_cut() -> None:
    batches = [build_batch([Record(offset, 0, None, b"x" * offset)]) for offset in range(5)]
    log = b"".join(batches)
    starts = [sum(map(len, batches[:index])) for index in range(6)]
    for end in range(len(log) + 1):
        whole = sum(start <= end for start in starts[1:])
        assert [pos for pos, _ in iter_batches(log, 0, end)] == starts[:whole]
        assert [header.base_offset for _, header in iter_batches(log[:end])] == list(range(whole))
    assert [pos for pos, _ in iter_batches(log, starts[2])] == starts[2:5]


def test_a_bad_batch_stops_the_walk_with_an_error() -> None:
    log = build_batch(RECORDS) + changed(build_batch(RECORDS), magic=7)
    walk = iter_batches(log)
    assert next(walk)[0] == 0
    with pytest.raises(CorruptBatch, match="magic 2, found 7"):
        next(walk)


def test_every_flipped_bit_is_seen_by_the_checksum_or_lies_outside_of_it() -> None:
    batch = build_batch(RECORDS)
    header = read_header(batch)
    for bit in range(len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        if bit // 8 >= CRC_START:
            with pytest.raises(CorruptBatch, match="checksum"):
                check_crc(flipped, 0, header)
        else:
            check_crc(flipped, 0, header)


def test_a_checksum_of_a_batch_that_is_cut_off() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(CorruptBatch, match="cut off"):
        check_crc(batch[:-1], 0, read_header(batch))


def test_stamping_leaves_the_checksum_alone() -> None:
    log = bytearray(b"...") + build_batch(RECORDS)
    before = read_header(log, 3)
    stamp(memoryview(log), 3, 2**50, 77)
    assert read_header(log, 3) == before._replace(base_offset=2**50, leader_epoch=77)
    check_crc(log, 3, read_header(log, 3))
    assert [record.offset for record in iter_records(log, 3)] == [2**50 + delta for delta in range(4)]


@for_each("codec", CODEC_NAMES)
def test_log_append_time(codec: str) -> None:
    log = bytearray(b"...") + build_batch(RECORDS, codec=codec) + b"..."
    before = read_header(log, 3)
    set_log_append_time(memoryview(log), 3, 123_456)
    after = read_header(log, 3)
    assert after == before._replace(max_timestamp=123_456, attributes=before.attributes | 8, crc=after.crc)
    check_crc(log, 3, after)
    assert list(iter_records(log, 3)) == [record._replace(timestamp=123_456) for record in RECORDS]


def test_max_timestamp() -> None:
    batch = build_batch(RECORDS)
    set_max_timestamp(batch, 0, 5)
    assert read_header(batch).max_timestamp == 5
    assert not read_header(batch).is_log_append_time
    check_crc(batch, 0, read_header(batch))


def test_the_batch_of_another_producer() -> None:
    batch = build_batch(RECORDS, codec="gzip")
    set_producer(batch, 0, 2**40, 7, 2**31 - 2)
    assert batch == build_batch(RECORDS, codec="gzip", producer_id=2**40, epoch=7, base_sequence=2**31 - 2)
    set_producer(batch, 0, -1, -1, -1)
    assert batch == build_batch(RECORDS, codec="gzip")


def test_records_of_a_batch_that_is_cut_off() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(CorruptBatch, match="cut off"):
        list(iter_records(batch[:-1]))


@for_each("codec_id", [5, 6, 7])
def test_a_codec_that_nobody_has(codec_id: int) -> None:
    with pytest.raises(UnsupportedCodec, match=f"id {codec_id}"):
        iter_records(changed(build_batch(RECORDS), attributes=codec_id))


@for_each("codec", CODEC_NAMES[1:])
def test_decompressed_size_is_bounded(codec: str) -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], codec=codec)
    assert len(batch) < 10_000
    with pytest.raises(CorruptBatch):
        iter_records(batch, limit_bytes=100_000)
    assert len(list(iter_records(batch, limit_bytes=100_020))) == 1


@for_each("codec", CODEC_NAMES)
def test_an_emptied_batch_holds_nothing(codec: str) -> None:
    batch = BatchBuilder(codec=codec, base_offset=7).build(last_offset=9)
    assert len(batch) == BATCH_OVERHEAD
    assert list(iter_records(batch)) == []
    with pytest.raises(CorruptBatch, match="left over"):
        list(iter_records(changed(batch + b"\0", batch_length=50)))


@for_each("codec", CODEC_NAMES)
@settings(max_examples=examples(40), deadline=None)
@given(records=record_lists(gaps=True))
def test_built_batch_is_read_back(codec: str, records: list[Record]) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.record_count) == (
        records[0].offset,
        records[-1].offset,
        len(records),
    )
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(memoryview(batch))) == records


@for_each("codec", CODEC_NAMES)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damage_that_the_checksum_does_not_see_raises_only_our_errors(codec: str, data: st.DataObject) -> None:
    """As if someone had computed the checksum over his lies."""
    batch = build_batch(RECORDS, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(batch) - 1))
        batch[place] = data.draw(st.integers(0, 255))
    batch = batch[: data.draw(st.integers(0, len(batch)) | st.just(len(batch)))]
    try:
        records = list(iter_records(batch, limit_bytes=1 << 20))
        assert len(records) == read_header(batch).record_count
    except KqueueError:
        pass
