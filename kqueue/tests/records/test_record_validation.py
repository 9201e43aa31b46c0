from __future__ import annotations

import pytest

from kqueue.base.errors import (
    InvalidRecord,
    InvalidTimestamp,
)
from kqueue.records.batch import check_crc, iter_records, read_header
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder, build_batch
from kqueue.records.record import Record
from kqueue.tests.records.produced import DAY, EVERY, NOW, check, produced, sealed
from kqueue.tests.records.strategies import CODEC_NAMES
from kqueue.tests.tables import for_each


@for_each("codec", CODEC_NAMES)
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


def test_record_errors_are_bounded() -> None:
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


@for_each("claimed", [-1, 5, NOW + 60_000])
def test_a_wrong_max_timestamp_is_put_right(claimed: int) -> None:
    batch = sealed(produced(), max_timestamp=claimed)
    header = check(memoryview(batch), EVERY)
    assert header == read_header(batch)
    assert read_header(batch).max_timestamp == NOW
    check_crc(batch, 0, read_header(batch))


def read_times(batch: bytearray) -> tuple[int, int]:
    header = read_header(batch)
    return header.base_timestamp, header.max_timestamp


@for_each("codec", CODEC_NAMES)
@for_each("claimed", [0, 5, NOW])
def test_records_without_a_time_give_a_batch_without_one(codec: str, claimed: int) -> None:
    """librdkafka writes max timestamp 0 there; Kafka stores the greatest of the records, -1."""
    batch = sealed(produced(codec=codec, time=-1), max_timestamp=claimed)
    header = check(batch, ValidationRules())
    assert header == read_header(batch)
    assert read_times(batch) == (-1, -1)
    check_crc(batch, 0, read_header(batch))


@for_each("claimed", [0, -1, -5, NOW - 1, NOW + 3_600_001, 2**63 - 1])
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
