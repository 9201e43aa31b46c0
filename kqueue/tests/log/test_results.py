"""The results of `append`, `read` and look-ups by time."""

from __future__ import annotations

from kqueue.base.sliced_task import run_to_end
from kqueue.log.results import AppendResult, ReadResult, TieredReadResult, TimestampAndOffset
from kqueue.storage.region import BytesSource, Region
from kqueue.tests.log.helpers import START_MS, append, open_log


def test_an_append_returns_the_offsets_of_its_batch() -> None:
    """S3.2"""
    log = open_log()
    append(log, b"a")
    assert append(log, b"b", b"c") == AppendResult(1, 2, -1, 0, False, 3)


def test_a_repeated_batch_returns_its_first_offsets_and_the_log_end() -> None:
    """S3.7"""
    log = open_log()
    batch = {"producer_id": 5, "epoch": 0, "base_sequence": 0}
    first = append(log, b"a", **batch)
    append(log, b"b")
    repeated = first._replace(duplicate=True, next_offset=2, log_append_time_ms=START_MS)
    assert append(log, b"a", **batch) == repeated


def test_the_time_of_the_append_is_returned_where_the_topic_stamps_it() -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    assert append(log, b"a", time_ms=START_MS - 5).log_append_time_ms == START_MS


def test_a_read_result_holds_the_bytes_of_its_batches_and_where_to_go_on() -> None:
    log = open_log()
    append(log, b"a", b"b")
    result = log.read(0, 1 << 20, end_offset=2)
    assert (bool(result), len(result), result.next_offset, result.segment_base, result.position) == (
        True, log.segments.size, 2, 0, 0,
    )  # fmt: skip
    assert result.region is not None
    assert result.data is result.region
    assert result.read() == result.region.read() == log.segments[0].log.read_at(0, len(result))
    assert result.check is None


def test_an_empty_read_result_is_falsy_and_has_no_bytes() -> None:
    result = ReadResult(None, 7, 3, 100)
    assert (bool(result), len(result), result.data, result.read()) == (False, 0, b"", b"")
    assert (result.next_offset, result.segment_base, result.position) == (7, 3, 100)


def test_a_record_found_by_time_has_its_leader_epoch() -> None:
    log = open_log()
    append(log, b"a", leader_epoch=4)
    assert run_to_end(log.offset_for_time(START_MS, 1)) == TimestampAndOffset(START_MS, 0, 4)


def test_batches_of_the_tier_are_bytes_which_count_as_memory() -> None:
    result = TieredReadResult(Region(BytesSource(b"batches"), 0, 7), 5, [])
    assert (result.data, len(result), result.next_offset, bool(result)) == (b"batches", 7, 5, True)
    assert (TieredReadResult(None, 5, []).data, len(TieredReadResult(None, 5, []))) == (b"", 0)
