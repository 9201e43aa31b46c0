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
from kqueue.records.batch import CRC_START, iter_records, read_header, set_max_timestamp
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.tests.records.produced import EVERY, NOW, check, produced, sealed
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.records.validation import validate_batch
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

BOTH = for_each("rules", [ValidationRules(), EVERY])


@BOTH
@for_each("codec", CODEC_NAMES)
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
@for_each("magic", [0, 1])
def test_old_formats_are_not_for_here(rules: ValidationRules, magic: int) -> None:
    with pytest.raises(InvalidRecord, match="magic 2, found magic"):
        check(encode_set([Record(0, NOW, b"key", b"value")], magic), rules)


@BOTH
@for_each(
    "fields, error, words",
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
@for_each("length", [48, 0, -1, -(2**31)])
def test_a_length_below_the_headers(rules: ValidationRules, length: int) -> None:
    batch = produced()
    batch[8:12] = length.to_bytes(4, signed=True)
    with pytest.raises(CorruptBatch, match="at least"):
        check(batch, rules)


@BOTH
def test_any_flipped_bit_is_refused(rules: ValidationRules) -> None:
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


def test_every_record_is_read_if_a_rule_needs_it() -> None:
    assert not ValidationRules().every_record
    assert ValidationRules(ValidationLevel.FULL).every_record
    assert ValidationRules(keys_required=True).every_record
    assert ValidationRules(before_max_ms=5).every_record
    assert not ValidationRules(before_max_ms=5, log_append_time=True).every_record


@settings(max_examples=examples(60), deadline=None)
@given(records=record_lists(), codec=st.sampled_from(CODEC_NAMES))
def test_built_batch_passes(records: list[Record], codec: str) -> None:
    records = [record._replace(offset=offset) for offset, record in enumerate(records)]
    batch = build_batch(records, codec=codec)
    rules = ValidationRules(ValidationLevel.FULL, max_batch_bytes=2**31 - 1, after_max_ms=2**63 - 1)
    assert check(memoryview(batch).toreadonly(), rules) == read_header(batch)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), codec=st.sampled_from(CODEC_NAMES))
def test_lies_under_a_good_checksum_raise_only_our_errors(data: st.DataObject, codec: str) -> None:
    batch = produced(codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(CRC_START, len(batch) - 1))] = data.draw(st.integers(0, 255))
    set_max_timestamp(batch, 0, data.draw(st.sampled_from([NOW, 0, -1])))
    try:
        header = validate_batch(memoryview(batch), EVERY, now_ms=NOW)
    except KqueueError:
        return
    records = list(iter_records(batch))
    assert len(records) == header.record_count == header.last_offset_delta + 1
    assert [record.offset for record in records] == list(range(len(records)))
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))
