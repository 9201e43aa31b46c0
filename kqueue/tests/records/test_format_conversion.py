from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, KqueueError
from kqueue.records.any_format import iter_any_records
from kqueue.records.batch import check_crc, iter_records, read_header, set_log_append_time
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.message_set import encode_entry, encode_set, iter_entries
from kqueue.records.record import COMMIT, Record, control_key_value
from kqueue.tests.records.conversions import down_convert, up_convert
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.records.validation import validate_batch
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

MAGICS = for_each("magic", [0, 1])
RECORDS = [Record(20 + number, 1000 + number, b"k%d" % number, b"v" * number, (("h", b"x"),)) for number in range(3)]


def bare(record: Record, *, time: int | None = None) -> Record:
    return record._replace(headers=(), sequence=-1, timestamp=record.timestamp if time is None else time)


def from_zero(records: list[Record]) -> list[Record]:
    return [record._replace(offset=offset) for offset, record in enumerate(records)]


# --- up


@MAGICS
@for_each("codec_id", [0, 1, 2, 3])
def test_message_set_is_converted_to_one_batch(magic: int, codec_id: int) -> None:
    (batch,) = up_convert(encode_set(RECORDS, magic, codec_id))
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.codec_id, header.base_offset, header.last_offset) == (codec_id, 0, 2)
    time = None if magic else -1
    assert list(iter_records(batch)) == from_zero([bare(record, time=time) for record in RECORDS])
    validate_batch(memoryview(batch), ValidationRules(ValidationLevel.FULL), now_ms=2000)


def test_wrappers_and_runs_of_messages_become_batches_in_their_order() -> None:
    one, two, three = ([Record(0, 5, b"%d" % part, b"%d" % number) for number in range(2)] for part in range(3))
    batches = up_convert(encode_set(one, 1) + encode_set(two, 1, 1) + encode_set(three, 1, 3) + encode_set(one, 1))
    assert [read_header(batch).codec_id for batch in batches] == [0, 1, 3, 0]
    assert [record.key for batch in batches for record in iter_records(batch)] == [
        b"0",
        b"0",
        b"1",
        b"1",
        b"2",
        b"2",
        b"0",
        b"0",
    ]


def test_offsets_that_a_producer_gives_mean_nothing() -> None:
    same = b"".join(encode_entry(0, 0, -1, None, b"%d" % number) for number in range(3))
    (batch,) = up_convert(same)
    assert [(record.offset, record.value) for record in iter_records(batch)] == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_a_run_of_messages_is_split_at_the_largest_batch() -> None:
    records = [Record(number, 5, None, bytes([number]) * 100) for number in range(20)]
    batches = up_convert(encode_set(records, 1), max_batch_bytes=500)
    assert len(batches) > 3
    assert all(len(batch) <= 500 for batch in batches)
    assert [record.value for batch in batches for record in iter_records(batch)] == [record.value for record in records]
    assert len(up_convert(encode_set(records[:1], 1), max_batch_bytes=10)) == 1, (
        "too large alone: that is for the check to say"
    )


def test_empty_message_set_is_converted_to_no_batch() -> None:
    assert up_convert(b"") == []


def test_batches_of_magic_2_are_handed_through() -> None:
    batches = [build_batch(RECORDS), build_batch(RECORDS, codec="gzip")]
    assert up_convert(b"".join(batches)) == batches
    with pytest.raises(CorruptBatch, match="cut off"):
        up_convert(batches[0] + batches[1][:-1])


def test_invalid_message_set_is_not_converted() -> None:
    with pytest.raises(InvalidRecord, match="magic 0 follows one of magic 1"):
        up_convert(encode_set(RECORDS, 1) + encode_set(RECORDS, 0))
    with pytest.raises(InvalidTimestamp):
        up_convert(encode_set(RECORDS, 1, log_append_time=True))
    data = encode_set(RECORDS, 1)
    for end in set(range(1, len(data))) - {entry.position for entry in iter_entries(data)}:
        with pytest.raises(CorruptBatch, match="cut off"):
            up_convert(data[:end])
    with pytest.raises(CorruptBatch, match="checksum"):
        up_convert(data[:-1] + b"x")


def test_all_wrappers_together_meet_the_limit() -> None:
    one = encode_set([Record(0, 0, None, bytes(10_000))], 1, 1)
    assert len(up_convert(one * 3, limit_bytes=31_000)) == 3
    with pytest.raises(CorruptBatch, match="limit"):
        up_convert(one * 4, limit_bytes=31_000)


@MAGICS
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_up_of_damage_raises_only_our_errors(magic: int, data: st.DataObject) -> None:
    message_set = bytearray(encode_set(RECORDS, magic, data.draw(st.integers(0, 3))))
    for _ in range(data.draw(st.integers(0, 3))):
        message_set[data.draw(st.integers(0, len(message_set) - 1))] = data.draw(st.integers(0, 255))
    try:
        batches = up_convert(message_set[: data.draw(st.integers(0, len(message_set)))])
    except KqueueError:
        return
    for batch in batches:
        assert list(iter_records(batch))


# --- down


@MAGICS
@for_each("codec", CODEC_NAMES)
@settings(max_examples=examples(20), deadline=None)
@given(records=record_lists(gaps=True))
def test_down_keeps_what_the_format_has(magic: int, codec: str, records: list[Record]) -> None:
    message_set = down_convert(build_batch(records, codec=codec), magic)
    entries = list(iter_entries(message_set))
    assert sum(entry.size for entry in entries) == len(message_set)
    assert {entry.magic for entry in entries} == {magic}
    assert {entry.codec_id for entry in entries} == {CODEC_NAMES.index(codec) % 4}, "zstd has no number there"
    assert list(iter_any_records(message_set)) == [bare(record, time=None if magic else -1) for record in records]


def test_down_of_log_append_time() -> None:
    batch = build_batch(RECORDS, codec="gzip")
    set_log_append_time(batch, 0, 7777)
    (entry,) = iter_entries(down_convert(batch, 1))
    assert entry.is_log_append_time
    assert entry.timestamp == 7777
    assert [record.timestamp for record in iter_any_records(down_convert(batch, 1))] == [7777] * 3


def test_control_batches_are_dropped() -> None:
    marker = build_batch([Record(30, 0, *control_key_value(COMMIT, 0))], control=True, transactional=True)
    log = build_batch(RECORDS, transactional=True, producer_id=1, epoch=0, base_sequence=0) + marker
    assert [record.offset for record in iter_any_records(down_convert(log, 1))] == [20, 21, 22]


@MAGICS
def test_message_set_old_enough_is_not_converted(magic: int) -> None:
    for codec_id in range(4):
        old = encode_set(RECORDS, magic, codec_id)
        assert down_convert(old, magic) == old
    assert down_convert(encode_set(RECORDS, 1, 1), 0) == encode_set(RECORDS, 0, 1)
    assert down_convert(encode_set(RECORDS, 0, 1), 1) == encode_set(RECORDS, 0, 1)


def test_conversion_keeps_to_its_offsets() -> None:
    log = build_batch(RECORDS) + build_batch(
        [record._replace(offset=record.offset + 10) for record in RECORDS], codec="gzip"
    )
    offsets = [record.offset for record in iter_any_records(down_convert(log, 1, start_offset=21))]
    assert offsets == [21, 22, 30, 31, 32]
    assert [record.offset for record in iter_any_records(down_convert(log, 1, start_offset=31))] == [30, 31, 32], (
        "a wrapper stays whole"
    )
    assert [record.offset for record in iter_any_records(down_convert(log, 1, max_bytes=1))] == [20, 21, 22]
    first = len(down_convert(log, 1, max_bytes=1))
    assert len(down_convert(log, 1, max_bytes=first)) == first
    assert len(down_convert(log, 1, max_bytes=first + 1)) > first
    assert down_convert(log[:-1], 1) == down_convert(log, 1, max_bytes=1), "a cut-off end is passed over"


def test_a_batch_that_compaction_emptied_gives_nothing() -> None:
    for codec in CODEC_NAMES:
        log = BatchBuilder(codec=codec, base_offset=5).build(last_offset=9)
        assert down_convert(log + build_batch(RECORDS), 1) == down_convert(build_batch(RECORDS), 1)


@MAGICS
@settings(max_examples=examples(30), deadline=None)
@given(records=record_lists(), codec=st.sampled_from(CODEC_NAMES))
def test_down_and_up_again(magic: int, records: list[Record], codec: str) -> None:
    batches = up_convert(down_convert(build_batch(records, codec=codec), magic))
    again = [record for batch in batches for record in iter_records(batch)]
    assert again == from_zero([bare(record, time=None if magic else -1) for record in records])
