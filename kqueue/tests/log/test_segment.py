from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.segment import Segment
from kqueue.records.batch import read_header, stamp
from kqueue.storage import MemoryStorage
from kqueue.storage.memory import MemoryFile
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, batch
from kqueue.tests.tables import for_each

INDEX_BYTES = 1 << 20


def make(base: int = 100) -> Segment:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    return Segment.open(storage, "t-0", base, START_MS, create=True)


def put(segment: Segment, base: int, *values: bytes, interval_bytes: int = 100, time_ms: int = START_MS) -> int:
    data = batch(*values, time_ms=time_ms)
    stamp(data, 0, base, 0)
    header = read_header(data)
    return segment.append(data, header.last_offset, header.max_timestamp, interval_bytes, INDEX_BYTES)


def filled(count: int = 10) -> Segment:
    """Batches of two records from offset 100 on, all of one size."""
    segment = make()
    for number in range(count):
        put(segment, 100 + 2 * number, b"a" * 20, b"b" * 20, time_ms=START_MS + number)
    return segment


def test_the_files_are_named_by_the_first_offset_and_nothing_is_allocated_ahead() -> None:
    """S3.2, S3.6"""
    segment = make(42)
    names = [f"0000000000000000004{2}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert [(entry.name, entry.size) for entry in segment.files._storage.list("t-0")] == [(name, 0) for name in names]


def test_an_entry_is_made_after_each_interval_of_bytes() -> None:
    """S3.4"""
    segment = filled()
    size = segment.size // 10
    entries = [segment.index._at(number) for number in range(segment.index.entries.count)]
    step = 100 // size + 1
    assert [entry.position for entry in entries] == [size * number for number in range(step, 10, step)]
    assert [entry.offset for entry in entries] == [101 + 2 * number for number in range(step, 10, step)]
    assert segment.timeindex.entries.count == len(entries)


def test_every_offset_is_found_through_the_index() -> None:
    """S4.1"""
    segment = filled()
    size = segment.size // 10
    for offset in range(90, 120):
        located = segment.find(offset)
        assert located is not None
        assert located.position == max(0, (offset - 100) // 2) * size
    assert segment.find(120) is None


def test_a_search_reads_no_more_than_a_step_of_the_index() -> None:
    """S4.4b"""
    segment = make()
    for number in range(2000):
        put(segment, 100 + number, b"x" * 50, interval_bytes=4096)
    read = 0
    original = segment.log.read_at

    def counted(position: int, size: int) -> bytes:
        nonlocal read
        data = original(position, size)
        read += len(data)
        return data

    segment.log = type("Counted", (), {"read_at": staticmethod(counted), "size": segment.log.size})()  # type: ignore[assignment]
    assert segment.find(1900) is not None
    assert 0 < read <= 4096 * 3
    assert segment.size > 200_000


def test_a_wrong_index_entry_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    segment = filled()
    segment.index.entries.cut(0)
    segment.index.append(101, 13)  # points into the middle of a batch
    located = segment.find(110)
    assert located is not None
    assert located.unit.last_offset == 111
    assert "astray" in caplog.text


def test_whole_batches_are_cut_at_a_size() -> None:
    segment = filled()
    size = segment.size // 10
    assert segment.limit_bytes(0, segment.size, 3 * size) == (3 * size, 106)
    assert segment.limit_bytes(0, segment.size, 3 * size + 1) == (3 * size, 106)
    assert segment.limit_bytes(size, segment.size, 2 * size - 1) == (2 * size, 104)
    assert segment.limit_bytes(size, segment.size, 5) == (size, 102)


@for_each(
    "size, last_offset, time_ms, rolls",
    [
        (1000, 120, START_MS, False),
        (1001, 120, START_MS, True),
        (1, 100 + RELATIVE_OFFSET_MAX, START_MS, False),
        (1, 101 + RELATIVE_OFFSET_MAX, START_MS, True),
        (1, 120, START_MS + 500, False),
        (1, 120, START_MS + 501, True),
        (1, 120, START_MS - 10_000, False),
    ],
)
def test_a_segment_ends_by_size_by_relative_offset_and_by_the_time_of_its_first_batch(
    size: int, last_offset: int, time_ms: int, rolls: bool
) -> None:
    """S3.5"""
    segment = make()
    put(segment, 100, b"x", time_ms=START_MS)
    put(segment, 101, b"x", time_ms=START_MS + 5000)
    for _ in range(2):
        assert segment.must_roll(size, last_offset, time_ms, ManualClock(START_MS), segment.size + 1000, 500) is rolls
        segment._rolling_timestamp = -(2**63) - 1  # as after opening: it has to be read


def test_an_empty_segment_never_ends() -> None:
    assert not make().must_roll(10**6, 2**40, 2**60, ManualClock(START_MS), 14, 1)


def test_without_times_in_the_records_the_age_is_that_of_the_segment() -> None:
    segment = make()
    put(segment, 100, b"x", time_ms=-1)
    clock = ManualClock(START_MS)
    clock.advance(500)
    assert not segment.must_roll(1, 101, -1, clock, 10**6, 500)
    clock.advance(1)
    assert segment.must_roll(1, 101, -1, clock, 10**6, 500)


@for_each("index_bytes, entries", [(24, 1), (36, 2), (8, 1), (4, 1)])
def test_a_segment_ends_when_an_index_is_full(index_bytes: int, entries: int) -> None:
    """S3.5"""
    segment = make()
    offset = 100
    while not segment.indexes_full:
        data = batch(b"x" * 50, time_ms=START_MS + offset)
        stamp(data, 0, offset, 0)
        segment.append(data, offset, START_MS + offset, 0, index_bytes)
        offset += 1
    assert segment.index.entries.count == entries
    assert segment.must_roll(1, offset, START_MS, ManualClock(START_MS), 10**6, 10**6)


def test_sealing_ends_the_time_index_with_the_greatest_time() -> None:
    segment = make()
    put(segment, 100, b"x", time_ms=START_MS + 70)
    put(segment, 101, b"x", time_ms=START_MS)
    segment.seal()
    assert segment.timeindex.last() == (START_MS + 70, 100)
    assert segment.max_timestamp == START_MS + 70
    assert segment.index.entries._tail is None


def test_batches_since_a_time_come_in_order_of_offset() -> None:
    """S4.2"""
    segment = make()
    times = [5, 3, 9, 1, 9, 20, 2]
    for number, time in enumerate(times):
        put(segment, 100 + number, b"x" * 90, time_ms=START_MS + time)
    for time in range(22):
        for start in (0, 102, 106):
            offsets = [one.unit.last_offset for one in segment.batches_since(START_MS + time, start)]
            expected = [100 + number for number, when in enumerate(times) if when >= time and 100 + number >= start]
            assert offsets[:1] == expected[:1]
            assert set(expected) == set(offsets)


def test_truncation_drops_whole_batches_and_index_entries_and_remembers_the_greatest_time() -> None:
    segment = filled()
    size = segment.size // 10
    assert segment.truncate_to(107, index_bytes_max=INDEX_BYTES) == 106
    assert segment.size == segment.log.size == 3 * size
    assert segment.index.last().offset < 106
    assert segment.max_timestamp == START_MS + 2 + 1
    assert put(segment, 106, b"new") == 3 * size
    assert segment.truncate_to(500, index_bytes_max=INDEX_BYTES) is None


def test_reading_a_torn_tail_is_refused() -> None:
    segment = filled()
    segment.log.append(b"torn")
    segment.size += 4
    with pytest.raises(CorruptIndex, match="the last whole batch ends at"):
        segment.read_tail()


def test_removing_takes_all_files() -> None:
    segment = filled()
    segment.files.remove()
    assert segment.files._storage.list("t-0") == []


def test_without_times_the_age_counts_from_the_last_append() -> None:
    segment = make()
    put(segment, 100, b"a", time_ms=-1)
    at = START_MS + 1000
    assert segment.view(101, True, at, with_first=False).time_ms == at
    assert segment.view(101, True, at + 500, with_first=False).time_ms == at
    put(segment, 101, b"b", time_ms=-1)
    assert segment.view(102, True, at + 700, with_first=False).time_ms == at + 700


@for_each("stored", [-1, 0])
def test_a_segment_that_was_found_without_times_is_as_old_as_its_file(stored: int) -> None:
    """0: what earlier versions stored for records without a time."""
    clock = ManualClock(START_MS)
    storage = MemoryStorage(clock)
    storage.make_folder("t-0")
    put(Segment.open(storage, "t-0", 100, START_MS, create=True), 100, b"a", time_ms=stored)
    clock.advance(5000)
    segment = Segment.open(storage, "t-0", 100, clock.wall_ms())
    clock.advance(1)
    assert segment.view(101, False, clock.wall_ms(), with_first=False).time_ms == START_MS
    clock.advance(1000)
    assert segment.view(101, False, clock.wall_ms(), with_first=False).time_ms == START_MS


def test_an_advanced_clock_does_not_age_what_was_written_before_by_more_than_is_true() -> None:
    """The machine's files know nothing of the time that an embedded broker was advanced by."""
    clock = ManualClock(START_MS)
    storage = MemoryStorage(clock)
    storage.make_folder("t-0")
    put(Segment.open(storage, "t-0", 100, START_MS, create=True), 100, b"a", time_ms=-1)
    day_ms = 86_400_000
    segment = Segment.open(storage, "t-0", 100, START_MS + 8 * day_ms)
    assert segment.view(101, False, START_MS + 8 * day_ms, with_first=False).time_ms == START_MS + 8 * day_ms
    assert segment.view(101, False, START_MS + 16 * day_ms, with_first=False).time_ms == START_MS + 8 * day_ms


def test_a_storage_that_knows_no_ages_leaves_the_time_of_opening() -> None:
    class Ageless(MemoryFile):
        def age_ms(self) -> int | None:
            return None

    segment = make()
    put(segment, 100, b"a", time_ms=-1)
    again = Segment.open(segment.files._storage, "t-0", 100, START_MS + 9000)
    again.log = Ageless(again.log.read_at(0, again.size))
    assert again.view(101, False, START_MS + 10_000, with_first=False).time_ms == START_MS + 9000
