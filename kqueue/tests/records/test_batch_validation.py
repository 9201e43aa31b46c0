from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    KqueueError,
    RecordTooLarge,
    UnsupportedCodec,
)
from kqueue.records.any_format import encode_set
from kqueue.records.batch import CRC_START, HEADER, check_crc, iter_records, read_header, set_max_timestamp
from kqueue.records.batch_validation import ValidationLevel, ValidationRules, check_produced
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder, build_batch
from kqueue.records.record import Record
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists

NOW = 1_700_000_000_000
DAY = 86_400_000
EVERY = ValidationRules(ValidationLevel.FULL)
BOTH = pytest.mark.parametrize("rules", [ValidationRules(), EVERY], ids=["header", "records"])


def produced(
    count: int = 3, codec: str = "none", *, time: int = NOW, key: bytes | None = b"k", **settings: object
) -> bytearray:
    records = [Record(offset, time, key, b"value", ()) for offset in range(count)]
    return build_batch(records, codec=codec, **settings)


def sealed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, and a checksum that agrees."""
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    time = fields.get("max_timestamp", read_max_timestamp(batch))
    set_max_timestamp(batch, 0, time)
    return batch


def read_max_timestamp(batch: bytearray) -> int:
    return int(HEADER.unpack_from(batch)[8])


def check(batch: bytes | bytearray, rules: ValidationRules, *, produce_version: int = 9) -> object:
    return check_produced(memoryview(batch), rules, now_ms=NOW, produce_version=produce_version)


@BOTH
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_good_batch(rules: ValidationRules, codec: str) -> None:
    for batch in (
        produced(codec=codec),
        produced(1, codec, producer_id=5, epoch=0, base_sequence=0, transactional=True),
    ):
        before = bytes(batch)
        assert check(batch, rules) == read_header(batch)
        assert batch == before


@BOTH
def test_not_exactly_one_batch(rules: ValidationRules) -> None:
    batch = produced()
    for wrong in (b"", batch + produced(), batch + b"\0"):
        with pytest.raises(InvalidRecord, match="one"):
            check(wrong, rules)


@BOTH
def test_a_cut_at_every_byte(rules: ValidationRules) -> None:
    batch = produced()
    for end in range(1, len(batch)):
        with pytest.raises((CorruptBatch, InvalidRecord)):
            check(batch[:end], rules)


@BOTH
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_not_for_here(rules: ValidationRules, magic: int) -> None:
    with pytest.raises(InvalidRecord, match="magic 2, found magic"):
        check(encode_set([Record(0, NOW, b"key", b"value")], magic), rules)


@BOTH
@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"record_count": 2}, InvalidRecord, "2 records"),
        ({"record_count": 4}, InvalidRecord, "4 records"),
        ({"record_count": 0}, InvalidRecord, "0 records"),
        ({"record_count": -1}, InvalidRecord, "-1 records"),
        ({"record_count": 0, "last_offset_delta": -1}, InvalidRecord, "0 records"),
        ({"last_offset_delta": 2**31 - 1}, InvalidRecord, "delta of 2147483647"),
        ({"base_offset": 1}, InvalidRecord, "base offset 0"),
        ({"attributes": 0x20}, InvalidRecord, "control"),
        ({"attributes": 0x40}, InvalidRecord, "delete horizon"),
        ({"attributes": 0x08}, InvalidTimestamp, "LogAppendTime"),
        ({"attributes": 0x05}, UnsupportedCodec, "id 5"),
        ({"attributes": 0x07}, UnsupportedCodec, "id 7"),
        ({"producer_id": 0}, InvalidRecord, "sequence -1"),
        ({"producer_id": 3}, InvalidRecord, "sequence -1"),
    ],
)
def test_headers_that_are_refused(
    rules: ValidationRules, fields: dict[str, int], error: type[KqueueError], words: str
) -> None:
    with pytest.raises(error, match=words):
        check(sealed(produced(), **fields), rules)


@BOTH
@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_length_below_the_headers(rules: ValidationRules, length: int) -> None:
    batch = produced()
    batch[8:12] = length.to_bytes(4, signed=True)
    with pytest.raises(CorruptBatch, match="at least"):
        check(batch, rules)


@BOTH
def test_the_checksum(rules: ValidationRules) -> None:
    batch = produced()
    for bit in range(CRC_START * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(KqueueError):
            check(flipped, rules)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        check(batch, rules)


@BOTH
def test_the_largest_batch(rules: ValidationRules) -> None:
    batch = produced()
    check(batch, ValidationRules(rules.level, max_batch_bytes=len(batch)))
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes"):
        check(batch, ValidationRules(rules.level, max_batch_bytes=len(batch) - 1))


@BOTH
def test_zstd_needs_produce_7(rules: ValidationRules) -> None:
    check(produced(codec="zstd"), rules, produce_version=7)
    check(produced(codec="lz4"), rules, produce_version=3)
    with pytest.raises(UnsupportedCodec, match="Produce 7"):
        check(produced(codec="zstd"), rules, produce_version=6)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_keys_are_needed_on_a_compacted_topic(codec: str) -> None:
    rules = ValidationRules(keys_required=True)
    check(produced(codec=codec, key=b""), rules)
    with pytest.raises(InvalidRecord, match="key"):
        check(produced(codec=codec, key=None), rules)


def test_all_bad_records_are_named_in_the_words_of_kafka() -> None:
    rules = ValidationRules(keys_required=True, before_max_ms=DAY)
    builder = BatchBuilder()
    for time, key in (
        (NOW, b"k"),
        (NOW, None),
        (NOW - DAY - 1, b"k"),
        (NOW, None),
        (-1, b"k"),
        (NOW + 3_600_001, None),
    ):
        builder.append(time, key, b"v")
    with pytest.raises(
        InvalidTimestamp, match="One or more records have been rejected due to invalid timestamp"
    ) as caught:
        check(builder.build(), rules)
    no_key = "Compacted topic cannot accept message without key"
    within = f"The timestamp should be within [{NOW - DAY}, {NOW + 3_600_000}]"
    late = f"Timestamp {NOW - DAY - 1} of message with offset 2 is out of range. {within}"
    assert list(caught.value.record_errors) == [(1, no_key), (2, late), (3, no_key), (5, no_key)]
    with pytest.raises(
        InvalidRecord, match=r"due to 3 record errors in total, .*: \[RecordError\(batchIndex=0, "
    ) as refused:
        check(produced(key=None), rules)
    assert [one.batch_index for one in refused.value.record_errors] == [0, 1, 2]


def test_what_is_said_of_single_records_has_a_bound() -> None:
    batch = produced(20_000, key=None)
    with pytest.raises(InvalidRecord, match="due to 20000 record errors") as caught:
        check(batch, ValidationRules(keys_required=True))
    assert sum(len(one.message) for one in caught.value.record_errors) < 70_000
    assert [one.batch_index for one in caught.value.record_errors[:3]] == [0, 1, 2]


def test_bounds_of_time() -> None:
    rules = ValidationRules(ValidationLevel.FULL, before_max_ms=DAY, after_max_ms=1000)
    for time in (-1, NOW - DAY, NOW + 1000):
        check(produced(time=time), rules)
    for time in (NOW - DAY - 1, NOW + 1001, -2, 2**63 - 1):
        with pytest.raises(InvalidTimestamp, match="timestamp"):
            check(produced(time=time), rules)


def test_a_bound_on_the_past_looks_at_the_oldest_record() -> None:
    builder = BatchBuilder()
    for time in (NOW, NOW - DAY, NOW):
        builder.append(time, None, None)
    batch = builder.build()
    check(batch, ValidationRules())
    with pytest.raises(InvalidTimestamp, match="rejected due to invalid timestamp"):
        check(batch, ValidationRules(before_max_ms=DAY - 1))


def test_a_record_too_late_under_a_header_that_hides_it() -> None:
    batch = sealed(
        build_batch([Record(0, NOW, b"k", b"", ()), Record(1, NOW + 3_600_001, b"k", b"", ())]), max_timestamp=NOW
    )
    check(batch, ValidationRules())
    with pytest.raises(InvalidTimestamp, match="rejected due to invalid timestamp"):
        check(batch, EVERY)


def test_log_append_time_topics_have_no_bounds() -> None:
    rules = ValidationRules(ValidationLevel.FULL, log_append_time=True, before_max_ms=0, after_max_ms=0)
    check(produced(time=5), rules)
    check(produced(time=2**62), rules)
    with pytest.raises(InvalidTimestamp, match="LogAppendTime"):
        check(produced(timestamp_type=LOG_APPEND_TIME_TYPE), rules)


@pytest.mark.parametrize("claimed", [-1, 5, NOW + 60_000])
def test_a_wrong_max_timestamp_is_put_right(claimed: int) -> None:
    batch = sealed(produced(), max_timestamp=claimed)
    header = check(memoryview(batch), EVERY)
    assert header == read_header(batch)
    assert read_header(batch).max_timestamp == NOW
    check_crc(batch, 0, read_header(batch))


def read_times(batch: bytearray) -> tuple[int, int]:
    header = read_header(batch)
    return header.base_timestamp, header.max_timestamp


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("claimed", [0, 5, NOW])
def test_records_without_a_time_give_a_batch_without_one(codec: str, claimed: int) -> None:
    """librdkafka writes max timestamp 0 there; Kafka stores the greatest of the records, -1."""
    batch = sealed(produced(codec=codec, time=-1), max_timestamp=claimed)
    header = check(batch, ValidationRules())
    assert header == read_header(batch)
    assert read_times(batch) == (-1, -1)
    check_crc(batch, 0, read_header(batch))


@pytest.mark.parametrize("claimed", [0, -1, -5, NOW - 1, NOW + 3_600_001, 2**63 - 1])
def test_a_max_timestamp_below_the_base_or_beyond_the_bound_is_replaced(claimed: int) -> None:
    batch = sealed(produced(), max_timestamp=claimed)
    assert check(batch, ValidationRules()) == read_header(batch)
    assert read_times(batch) == (NOW, NOW)


def test_a_negative_base_timestamp_does_not_hide_a_record_that_is_too_late() -> None:
    batch = sealed(produced(time=NOW + 3_600_001), base_timestamp=-1, max_timestamp=NOW)
    records = [record.timestamp for record in iter_records(batch)]
    assert records == [-1, -1, -1]
    builder = BatchBuilder()
    builder.append(-1, None, b"")
    builder.append(NOW + 3_600_001, None, b"")
    batch = sealed(builder.build(), max_timestamp=0)
    with pytest.raises(InvalidTimestamp, match="rejected due to invalid timestamp"):
        check(batch, ValidationRules())


def test_times_before_1970_count_as_none() -> None:
    """As in Kafka, where the greatest time of a batch is -1 at least."""
    batch = sealed(produced(time=-7), max_timestamp=3)
    check(batch, ValidationRules())
    assert read_times(batch) == (-7, -1)


def test_records_below_the_header_are_looked_at_only_at_that_level() -> None:
    builder = BatchBuilder()
    builder.append(NOW, b"k", b"v")
    batch = builder.build()
    batch[-2:] = b"\x00v"  # the header count where the value should be: one byte is left over
    set_max_timestamp(batch, 0, NOW)
    check(batch, ValidationRules())
    with pytest.raises(InvalidRecord, match="can't be read"):
        check(batch, EVERY)


def test_a_bomb_meets_the_limit() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(1_000_000))], codec="zstd")
    assert len(batch) < 1000
    check(batch, ValidationRules(ValidationLevel.FULL, limit_bytes=1_000_100))
    with pytest.raises(InvalidRecord, match="zstd"):
        check(batch, ValidationRules(ValidationLevel.FULL, limit_bytes=1_000_000))


def test_when_every_record_is_looked_at() -> None:
    assert not ValidationRules().every_record
    assert ValidationRules(ValidationLevel.FULL).every_record
    assert ValidationRules(keys_required=True).every_record
    assert ValidationRules(before_max_ms=5).every_record
    assert not ValidationRules(before_max_ms=5, log_append_time=True).every_record


@settings(max_examples=60, deadline=None)
@given(records=record_lists(), codec=st.sampled_from(CODEC_NAMES))
def test_what_the_builder_makes_passes(records: list[Record], codec: str) -> None:
    records = [record._replace(offset=offset) for offset, record in enumerate(records)]
    batch = build_batch(records, codec=codec)
    rules = ValidationRules(ValidationLevel.FULL, max_batch_bytes=2**31 - 1, after_max_ms=2**63 - 1)
    assert check(memoryview(batch).toreadonly(), rules) == read_header(batch)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), codec=st.sampled_from(CODEC_NAMES))
def test_lies_under_a_good_checksum_raise_only_our_errors(data: st.DataObject, codec: str) -> None:
    batch = produced(codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(CRC_START, len(batch) - 1))] = data.draw(st.integers(0, 255))
    set_max_timestamp(batch, 0, data.draw(st.sampled_from([NOW, 0, -1])))
    try:
        header = check_produced(memoryview(batch), EVERY, now_ms=NOW)
    except KqueueError:
        return
    records = list(iter_records(batch))
    assert len(records) == header.record_count == header.last_offset_delta + 1
    assert [record.offset for record in records] == list(range(len(records)))
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))
