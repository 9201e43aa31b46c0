from __future__ import annotations

import contextlib
import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import DiskFull, OffsetOutOfRange, StorageFailed
from kqueue.base.timers import Timers
from kqueue.log.deletion import AsyncDeleter, DeletedSegments, Done, TopicPartition
from kqueue.log.log import Log
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, check_log, flush, keep_producers, open_log, read_values
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

SETTINGS = {"segment_bytes": 200, "index_interval_bytes": 0}


def filled(storage: Storage | None = None, count: int = 6, **facts: object) -> Log:
    """A log of `count` segments with one record each."""
    log = open_log(storage, **SETTINGS, **facts)  # type: ignore[arg-type]
    for number in range(count):
        append(
            log, b"%d" % number + b"x" * 100, producer_id=1, epoch=0, base_sequence=number, time_ms=START_MS + number
        )
    flush(log)
    return log


def names(storage: Storage) -> list[str]:
    return [entry.name for entry in storage.list("t-0")]


def drop(log: Log, offset: int, high_watermark: int | None = None) -> DeletedSegments:
    keep_producers(log, offset)
    dropped = log.delete_before(
        offset, high_watermark=log.end_offset if high_watermark is None else high_watermark, why="a test"
    )
    assert dropped is not None
    return dropped


# --- out of the log


def test_dropped_segments_are_invisible_to_readers_at_once() -> None:
    """S5.1"""
    storage = MemoryStorage()
    log = filled(storage)
    dropped = drop(log, 3)
    assert (dropped.base_offset, dropped.end_offset, dropped.count, dropped.why) == (0, 3, 3, "a test")
    assert dropped.size > 300
    assert (log.start_offset, log.segments.base_offset, len(log.segments)) == (3, 3, 3)
    assert read_values(log) == [b"%d" % number + b"x" * 100 for number in (3, 4, 5)]
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 1000, end_offset=6)
    assert "00000000000000000000.log" in names(storage), "no file is touched yet"
    check_log(log)


@for_each(
    "offset, high_watermark, start",
    [(0, 6, 0), (1, 6, 1), (6, 6, 5), (100, 6, 5), (4, 2, 2), (4, 0, 0)],
)
def test_neither_the_active_segment_nor_what_lies_above_the_high_watermark_is_dropped(
    offset: int, high_watermark: int, start: int
) -> None:
    log = filled()
    dropped = log.delete_before(offset, high_watermark=high_watermark, why="a test")
    assert (dropped is None) == (start == 0)
    assert log.start_offset == log.segments.base_offset == start
    check_log(log)


def test_a_part_of_a_segment_stays_whole() -> None:
    log = open_log(**SETTINGS)
    for _ in range(3):
        append(log, b"a" * 30, b"b" * 30, b"c" * 30)
    assert log.delete_before(2, high_watermark=9, why="a test") is None
    assert drop(log, 5).end_offset == 3


def test_the_log_start_that_deleting_records_set_stays() -> None:
    log = filled()
    log.advance_start(4)
    assert drop(log, 2).end_offset == 2
    assert log.start_offset == 4
    drop(log, log.start_offset)
    assert (log.start_offset, log.segments.base_offset) == (4, 4)


def test_remaining_segments_are_appended_to_and_read() -> None:
    log = filled()
    read_result = log.read(5, 1000, end_offset=6)
    append(log, b"next")
    drop(log, 5)
    assert log.read(read_result.next_offset, 1000, end_offset=7).read()[-5:-1] == b"next"
    drop(log, 6)
    assert read_values(log) == [b"next"]


def test_a_log_that_is_offline_drops_nothing() -> None:
    log = filled()
    log.abandon()
    assert log.delete_before(3, high_watermark=6, why="a test") is None


def test_readers_keep_open_segments() -> None:
    """S5.1: a fetch that is on its way is not disturbed."""
    storage = MemoryStorage()
    log = filled(storage)
    fetched = log.read(0, 1000, end_offset=6)
    before = fetched.read()
    dropped = drop(log, 5)
    dropped.rename()
    assert fetched.read() == before
    dropped.remove()
    assert fetched.read() == before


# --- on the disk


def test_files_are_called_deleted_first_and_then_removed() -> None:
    storage = FaultyStorage()
    log = filled(storage)
    storage.steps.clear()
    drop(log, 2).rename()
    renamed = [step.path.rpartition("/")[2] for step in storage.steps if step.kind == "rename"]
    assert [name for name in renamed if ".log" in name] == ["00000000000000000000.log", "00000000000000000001.log"]
    assert storage.steps[-1].kind == "sync_folder"
    first = [name for name in names(storage) if name.startswith("00000000000000000000")]
    assert first == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert "00000000000000000001.snapshot.deleted" in names(storage)
    assert "00000000000000000002.snapshot" in names(storage)
    again = filled(storage, count=0, start_offset=2)
    assert not any(name.endswith(".deleted") for name in names(storage)), "the next start removes them"
    assert len(again.segments) == 4


def test_removing_missing_files_succeeds() -> None:
    storage = MemoryStorage()
    dropped = drop(filled(storage), 5)
    dropped.rename()
    dropped.remove()
    assert not any(name.endswith(".deleted") for name in names(storage))
    dropped.rename()
    dropped.remove()


class Desk:
    """A deleter with its surroundings."""

    def __init__(self) -> None:
        self.jobs = SteppedJobs()
        self.timers = Timers()
        self.clock = ManualClock()
        self.saved: list[tuple[TopicPartition, Done]] = []
        self.deleter = AsyncDeleter(
            self.jobs, self.timers, self.clock, lambda key, done: self.saved.append((key, done))
        )

    def advance(self, ms: int) -> None:
        self.jobs.run_all()
        self.clock.advance(ms)
        self.timers.run_due(self.clock.monotonic_ms())
        self.jobs.run_all()


def test_the_log_start_is_durable_before_any_file_is_renamed() -> None:
    storage, desk = MemoryStorage(), Desk()
    desk.deleter.delete_segments(("t", 0), drop(filled(storage), 3), 1000)
    desk.advance(10_000)
    before = names(storage)
    ((key, done),) = desk.saved
    assert key == ("t", 0)
    assert not any(name.endswith(".deleted") for name in before)
    done(None)
    desk.advance(999)
    assert sum(name.endswith(".log.deleted") for name in names(storage)) == 3
    desk.advance(1)
    assert not any(name.endswith(".deleted") for name in names(storage))
    assert sum(name.endswith(".log") for name in names(storage)) == 3


def test_nothing_is_removed_from_a_folder_that_is_held() -> None:
    storage, desk = MemoryStorage(), Desk()
    dropped = drop(filled(storage), 3)
    dropped.rename()
    desk.deleter.pause("t-0")
    desk.deleter.remove_files_later(storage, tuple(dropped.deleted_paths()), 500)
    desk.advance(500)
    assert sum(name.endswith(".log.deleted") for name in names(storage)) == 3
    desk.deleter.resume("t-0")
    desk.advance(1000)
    assert not any(name.endswith(".deleted") for name in names(storage))


def test_without_the_checkpoint_the_files_keep_their_names() -> None:
    storage, desk = MemoryStorage(), Desk()
    desk.deleter.delete_segments(("t", 0), drop(filled(storage), 3), 1000)
    desk.saved[0][1](StorageFailed("the disk is bad"))
    desk.advance(60_000)
    assert sum(name.endswith(".log") for name in names(storage)) == 6
    assert len(desk.saved) == 1


@for_each("is_current, left", [(True, 3), (False, 6)])
def test_checkpoint_that_found_no_room_is_written_again_unless_the_log_is_gone(is_current: bool, left: int) -> None:
    storage, desk, used = MemoryStorage(), Desk(), [True]
    desk.deleter.delete_segments(("t", 0), drop(filled(storage), 3), 1000, lambda: used[0])
    used[0] = is_current
    desk.saved.pop()[1](DiskFull("no room"))
    desk.advance(10_000)
    for _, done in desk.saved:
        done(None)
    desk.advance(1000)
    assert sum(name.endswith(".log") for name in names(storage)) == left


def test_names_that_could_not_be_synced_for_lack_of_files_are_synced_later(caplog: pytest.LogCaptureFixture) -> None:
    storage, desk = FaultyStorage(), Desk()
    desk.deleter.delete_segments(("t", 0), drop(filled(storage), 3), 0)
    storage.fail("sync_folder", number=errno.EMFILE)
    desk.saved[0][1](None)
    desk.advance(1000)
    assert sum(name.endswith(".log.deleted") for name in names(storage)) == 3
    storage.mend()
    for _ in range(3):
        desk.advance(1000)
    assert not any(name.endswith(".deleted") for name in names(storage))
    assert not caplog.text


def test_a_failed_rename_is_reported_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    storage, desk = FaultyStorage(), Desk()
    log = filled(storage)
    desk.deleter.delete_segments(("t", 0), drop(log, 3), 0)
    storage.fail("rename", lambda path: path.endswith(".index"))
    desk.saved[0][1](None)
    desk.advance(1000)
    assert "keep their names until the next start" in caplog.text
    assert len(read_values(log)) == 3
    append(log, b"on")


# --- the power goes


@settings(max_examples=examples(40), deadline=None)
@given(
    cut=st.integers(0, 30),
    upto=st.integers(1, 5),
    remains=st.sampled_from(Remains),
    seed=st.integers(0, 1000),
    old_point=st.booleans(),
)
def test_a_power_cut_at_any_step_leaves_the_remaining_log_valid(
    cut: int, upto: int, remains: Remains, seed: int, old_point: bool
) -> None:
    """S5.1, S5.3: the log start is on disk, so names that are half gone are no hole in the log."""
    storage = FaultyStorage()
    log = filled(storage)
    expected = read_values(log)[upto:]
    dropped = drop(log, upto)
    storage.cut_at = len(storage.steps) + cut
    with contextlib.suppress(PowerCut):
        dropped.rename()
        dropped.remove()
    storage = storage.after_cut(remains, random.Random(seed))
    log = open_log(storage, recovery_point=0 if old_point else 6, start_offset=upto, **SETTINGS)
    assert (log.start_offset, log.end_offset) == (upto, 6)
    assert read_values(log) == expected
    again = log.delete_before(log.start_offset, high_watermark=log.end_offset, why="a test")
    assert log.segments.base_offset == upto or again is None
    assert read_values(log) == expected
