from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.base.errors import OffsetOutOfRange
from kqueue.base.sliced_task import run_to_end
from kqueue.log.reader import HINTS_MAX, SteppedLookup
from kqueue.log.results import TimestampAndOffset
from kqueue.log.segment import STEP_BATCHES, LocatedBatch, Segment
from kqueue.storage import LocalStorage
from kqueue.tests.log.helpers import START_MS, append, flush, open_log, read_values
from kqueue.tests.tables import for_each


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets that were searched for."""
    offsets: list[int] = []
    original = Segment.find

    def find(self: Segment, offset: int) -> LocatedBatch | None:
        offsets.append(offset)
        return original(self, offset)

    monkeypatch.setattr(Segment, "find", find)
    return offsets


def test_following_the_log_searches_nothing_across_segments_and_appends(searches: list[int]) -> None:
    """S4.1: a fetch that goes on where the last ended needs no search."""
    log = open_log(segment_bytes=500, index_interval_bytes=100)
    append(log, b"first")
    offset = 0
    for number in range(50):
        fetched = log.read(offset, 200, end_offset=log.end_offset)
        assert fetched
        offset = fetched.next_offset
        append(log, b"x" * 40 * (number % 3))
    assert len(log.segments) > 3
    assert searches == [0] or len(searches) <= len(log.segments)


def test_reading_up_to_a_high_watermark_that_follows_searches_nothing(searches: list[int]) -> None:
    log = open_log()
    append(log, b"first")
    flush(log)
    offset = log.read(0, 1000, end_offset=log.flushed_offset).next_offset
    searches.clear()
    for _ in range(20):
        append(log, b"flushed")
        job = log.flush_job()
        assert job is not None
        append(log, b"not flushed")
        job.run()
        job.finish(None, None)
        fetched = log.read(offset, 1000, end_offset=log.flushed_offset)
        assert fetched.next_offset == log.flushed_offset
        offset = fetched.next_offset
    assert searches == []


def test_many_readers_at_different_offsets(searches: list[int]) -> None:
    log = open_log(index_interval_bytes=200)
    for number in range(200):
        append(log, b"%d" % number)
    for _ in range(2):
        for start in range(0, 200, 200 // (3 * HINTS_MAX)):
            fetched = log.read(start, 100, end_offset=200)
            assert fetched.next_offset == start + 1
    assert len(log.reader._hints) <= HINTS_MAX


def test_truncation_invalidates_cached_positions() -> None:
    log = open_log()
    for number in range(6):
        append(log, b"%d" % number)
    for offset in range(6):
        log.read(offset, 1, end_offset=6)
    log.truncate_to(2)
    for number in range(2, 6):
        append(log, b"new %d" % number * 30)
    for offset in (5, 4, 3, 2):
        assert b"new %d" % offset in log.read(offset, 1, end_offset=6).read()


def test_an_answer_ends_with_its_segment() -> None:
    log = open_log(segment_bytes=300)
    for number in range(12):
        append(log, b"%d" % number)
    first = log.read(0, 1 << 20, end_offset=12)
    assert first.next_offset == log.segments[1].base
    assert (first.segment_base, first.position) == (0, 0)
    assert read_values(log) == [b"%d" % number for number in range(12)]


def test_nothing_below_the_bound_is_an_empty_answer() -> None:
    log = open_log()
    append(log, b"a", b"b")
    for offset, bound in ((0, 0), (2, 2), (1, 1), (2, 99)):
        fetched = log.read(offset, 1000, end_offset=bound)
        assert (len(fetched), fetched.data, fetched.read(), fetched.region, fetched.next_offset) == (
            0,
            b"",
            b"",
            None,
            offset,
        )
    assert not log.read(0, 1000, end_offset=1), "a batch that reaches the bound is left out"


def test_an_oversized_batch_is_returned_only_if_a_minimum_of_one_applies() -> None:
    log = open_log()
    append(log, b"x" * 500)
    append(log, b"y")
    assert len(log.read(0, 100, end_offset=2, min_one_batch=False)) == 0
    assert log.read(0, 100, end_offset=2, min_one_batch=True).next_offset == 1
    assert log.read(0, 0, end_offset=2, min_one_batch=True).next_offset == 1


def test_offsets_outside_are_refused_and_the_end_is_not() -> None:
    log = open_log()
    append(log, b"a")
    assert not log.read(1, 100, end_offset=1)
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is not within 0 and 1"):
            log.read(offset, 100, end_offset=1)


def test_regions_have_a_descriptor_on_disk(tmp_path: object) -> None:
    """S4.4: zero copy."""
    log = open_log(LocalStorage(str(tmp_path)))
    append(log, b"hello")
    fetched = log.read(0, 1000, end_offset=1)
    assert fetched.region is not None
    assert fetched.data is fetched.region
    assert fetched.region.fileno() is not None
    assert len(fetched.region) == len(fetched) == len(fetched.read())


def test_times_are_found_across_segments_by_offset_not_by_time() -> None:
    """S4.2"""
    log = open_log(segment_bytes=150)
    times = [50, 10, 70, 20, 70, 30]
    for time in times:
        append(log, b"x" * 60, time_ms=START_MS + time)
    assert len(log.segments) >= 3
    for time in range(75):
        expected = next(((when, offset) for offset, when in enumerate(times) if when >= time), None)
        located = run_to_end(log.offset_for_time(START_MS + time, log.end_offset))
        if expected is None:
            assert located is None
        else:
            assert located is not None
            assert (located.timestamp - START_MS, located.offset, located.leader_epoch) == (*expected, 0)
    latest = run_to_end(log.latest_timestamp())
    assert latest is not None
    assert latest.offset == 2


def test_times_within_a_batch_and_below_the_bound_and_the_start() -> None:
    log = open_log()
    append(log, b"a", b"b", b"c", time_ms=START_MS, step_ms=10)
    append(log, b"d", time_ms=START_MS + 5)

    def offset_of(time: int, end_offset: int = 4) -> int | None:
        located = run_to_end(log.offset_for_time(START_MS + time, end_offset))
        return None if located is None else located.offset

    assert [offset_of(time) for time in (0, 1, 10, 11, 20, 21)] == [0, 1, 1, 2, 2, None]
    assert offset_of(20, end_offset=2) is None
    log.advance_start(3)
    assert [offset_of(time) for time in (0, 5, 6)] == [3, 3, None]


def test_the_latest_time_is_that_of_a_record_within_the_bounds() -> None:
    """S4.2: also where a segment's greatest time is that of a record before the log start, or above
    the bound.
    """
    times = [90, 10, 70, 20, 70, 30, 80, 5, 60]
    log = open_log(segment_bytes=300)
    for time in times:
        append(log, b"x" * 60, time_ms=START_MS + time)
    assert len(log.segments) == 5
    for start in range(len(times) + 1):
        log.advance_start(start)
        for end in range(start, len(times) + 1):
            expected = max(range(start, end), key=lambda offset: (times[offset], -offset), default=None)
            located = run_to_end(log.latest_timestamp(end))
            if expected is None:
                assert located is None
            else:
                assert located is not None
                assert (located.timestamp - START_MS, located.offset) == (times[expected], expected), (start, end)


def test_a_log_without_times_has_no_latest() -> None:
    log = open_log()
    assert run_to_end(log.latest_timestamp()) is None
    append(log, b"a", time_ms=-1)
    assert run_to_end(log.latest_timestamp()) is None
    assert run_to_end(log.offset_for_time(0, 1)) is None


def finish(
    look: SteppedLookup[TimestampAndOffset | None], meanwhile: Callable[[], object]
) -> TimestampAndOffset | None:
    """The end of a look-up, where this happens when it first gives way."""
    next(look)
    meanwhile()
    return run_to_end(look)


@for_each("greatest", [False, True])
def test_a_time_lookup_restarts_if_its_segment_is_deleted(greatest: bool) -> None:
    log = open_log(segment_bytes=1000)
    for _ in range(3):
        append(log, *(b"%d" % number for number in range(150)))
    assert [segment.base for segment in log.segments] == [0, 150, 300]
    time = START_MS + 149
    steps = log.latest_timestamp(450) if greatest else log.offset_for_time(time, 450)
    located = finish(steps, lambda: log.delete_before(150, high_watermark=450, why="test"))
    assert located == (time, 299, 0)


def test_a_long_time_lookup_yields() -> None:
    log = open_log()
    for number in range(3 * STEP_BATCHES):
        append(log, b"", time_ms=START_MS - number)
    look = log.segments[0].batches_since(START_MS + 1, 0)
    assert list(look) == [None] * 3
