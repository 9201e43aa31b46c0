from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.log.compaction import swap_files
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.compaction.model import CompactionConfig, CompactionResult, SegmentSource
from kqueue.log.log import Log
from kqueue.records.batch import iter_batches, iter_records, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, flush, open_log, read_records, run_job
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 0, "cleanup_policy": "compact"}


def put(log: Log, key: bytes, value: bytes | None, *, time_ms: int = START_MS) -> None:
    builder = BatchBuilder()
    builder.append(time_ms, key, value)
    data = builder.build()
    log.append(data, read_header(data), leader_epoch=0)


def filled(storage: Storage | None = None, count: int = 30, **facts: object) -> Log:
    """Four keys over and over, some segments of four records each, all flushed."""
    log = open_log(storage, **SETTINGS, **facts)  # type: ignore[arg-type]
    for number in range(count):
        put(log, b"key-%d" % (number % 4), b"%d" % number + b"." * 20, time_ms=START_MS + number)
    flush(log)
    return log


def compact(log: Log, upto: int | None = None, segment_bytes: int = 1000) -> CompactionResult:
    """Write the cleaned segments, of which several of the log's fit into one."""
    views = log.segment_views()
    sealed = log.segments.sealed_below(log.end_offset if upto is None else upto)
    sources = tuple(SegmentSource(view.base_offset, view.end_offset, view.size) for view in views[: len(sealed)])
    config = CompactionConfig(segment_bytes, 1 << 20, 0, 1000, 1 << 16)
    return CompactionTask(lambda: log.storage, log.folder, sources, 0, config, log.start_offset, START_MS)()


def swap_in(log: Log, compacted: CompactionResult) -> list[str]:
    """All steps of the swap; returns the paths of the old files."""
    by_base = {segment.base: segment for segment in log.segments.sealed_below(log.end_offset)}
    paths: list[str] = []
    for group in compacted.groups:
        swap_files.commit(log.storage, log.folder, group)
        replaced = log.replace([by_base[base] for base in group.sources], group)
        assert replaced is not None
        paths += replaced
        log.storage.sync_folder(log.folder)
    return paths


def state(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in read_records(log)}


# --- what policies see


def infos(log: Log) -> list[tuple[int, int, int]]:
    return [(segment.base, segment.size, segment.max_timestamp) for segment in log.segments]


def test_policies_see_the_segments() -> None:
    log = filled(count=10)
    views = log.segment_views()
    assert [view.base_offset for view in views[1:]] == [view.end_offset for view in views[:-1]]
    assert views[-1].end_offset == 10
    assert [view.is_active for view in views] == [False] * (len(views) - 1) + [True]
    assert sum(view.size for view in views) == log.segments.size
    assert (
        [view.max_timestamp for view in views]
        == [view.time_ms for view in views]
        == [START_MS + view.end_offset - 1 for view in views]
    )
    assert {view.first_timestamp for view in views} == {-1}
    firsts = [view.first_timestamp for view in log.segment_views(first_timestamps_from=views[1].base_offset)]
    assert firsts == [-1] + [START_MS + view.base_offset for view in views[1:]]


def test_without_timestamps_the_time_is_that_of_the_last_append() -> None:
    clock = ManualClock(START_MS)
    storage = MemoryStorage(clock)
    log = open_log(storage, clock, **SETTINGS)
    for _ in range(2):
        append(log, b"x" * 200, time_ms=-1, step_ms=0)
        clock.advance(1000)
        append(log, b"x" * 200, time_ms=-1, step_ms=0)
    views = log.segment_views()
    assert [view.max_timestamp for view in views] == [-1, -1, -1, -1]
    assert [view.time_ms - START_MS for view in views] == [1000, 1000, 2000, 2000]
    clock.advance(500)
    assert log.segment_views()[-1].time_ms == START_MS + 2000
    log.close()
    opened = open_log(storage, clock, clean=True, **SETTINGS)
    assert [view.time_ms - START_MS for view in opened.segment_views()] == [0, 1000, 1000, 2000]


# --- compacted segments


def test_compacted_segments_take_the_place_of_those_that_they_were_made_of() -> None:
    """S5.2: each key's last value, offsets with gaps, the active segment left alone."""
    storage = MemoryStorage()
    log = filled(storage)
    before, size, count = state(log), log.segments.size, len(log.segments)
    active = log.segments[-1]
    paths = swap_in(log, compact(log))
    assert state(log) == before
    assert log.segments.size < size
    assert 2 <= len(log.segments) < count
    assert log.segments[-1] == active
    records = read_records(log)
    assert [record.offset for record in records] == sorted(record.offset for record in records)
    assert [record.offset for record in records if record.offset < active.base] == list(
        range(active.base - 4, active.base)
    )
    assert all(storage.exists(path) for path in paths)
    assert sum(path.endswith(".log.deleted") for path in paths) > 3


@for_each("clean", [True, False])
def test_a_restart_finds_what_compaction_left(clean: bool) -> None:
    storage = MemoryStorage()
    log = filled(storage)
    swap_in(log, compact(log))
    records, segments = read_records(log), infos(log)
    if clean:
        log.close()
    log = open_log(storage, clean=clean, recovery_point=30, **SETTINGS)  # type: ignore[arg-type]
    assert read_records(log) == records
    assert infos(log) == segments
    put(log, b"key-0", b"next")
    assert state(log)[b"key-0"] == b"next"


def test_reads_in_a_gap_go_on_behind_it() -> None:
    """S5.2"""
    log = filled()
    swap_in(log, compact(log))
    first = next(record.offset for record in read_records(log))
    assert first > 8
    for start in range(first):
        offset, offsets = start, []
        while not offsets:
            fetched = log.read(offset, 1 << 20, end_offset=30)
            assert fetched.next_offset > offset
            offset = fetched.next_offset
            offsets = [
                record.offset
                for position, _ in iter_batches(fetched.read())
                for record in iter_records(fetched.read(), position)
            ]
        assert offsets[0] == first


def test_reader_of_replaced_segments_goes_on() -> None:
    log = filled()
    fetched = log.read(0, 1 << 20, end_offset=30)
    data = fetched.read()
    following = log.read(fetched.next_offset, 100, end_offset=30)
    paths = swap_in(log, compact(log))
    assert fetched.read() == data
    for path in paths:
        log.storage.remove(path)
    assert fetched.read() == data
    assert log.read(following.next_offset, 1 << 20, end_offset=30), "no hint leads to a segment that is gone"


def test_the_snapshots_of_replaced_segments_go_with_them() -> None:
    storage = MemoryStorage()
    log = open_log(storage, **SETTINGS)
    for number in range(12):
        builder = BatchBuilder(producer_id=7, epoch=0, base_sequence=number)
        builder.append(START_MS, b"key", b"%d" % number + b"." * 100)
        data = builder.build()
        log.append(data, read_header(data), leader_epoch=0)
    flush(log)
    paths = swap_in(log, compact(log))
    assert sum(path.endswith(".snapshot.deleted") for path in paths) > 0
    assert all(storage.exists(path) for path in paths)
    names = {entry.name for entry in storage.list("t-0")}
    kept = {f"{segment.base:020d}.snapshot" for segment in log.segments[1:]}  # type: ignore[attr-defined]
    assert {name for name in names if name.endswith(".snapshot")} == kept
    log = open_log(storage, recovery_point=12, **SETTINGS)
    assert log.producers.by_id[7].batches[-1].last_sequence == 11


def test_segments_that_left_the_log_are_not_replaced() -> None:
    log = filled()
    old = log.segments.sealed_below(30)
    group = compact(log).groups[0]
    assert log.segments.contains(old[: len(group.sources)])
    assert not log.segments.contains([*old[:1], *old[2:3]]), "no neighbours"
    assert not log.segments.contains([log.segments[-1]]), "the active segment"
    log.delete_before(old[0].base + 5, high_watermark=30, why="a test")
    assert not log.segments.contains(old[: len(group.sources)])
    assert log.replace(old[: len(group.sources)], group) is None
    log.abandon()
    assert log.replace(old[1 : len(group.sources)], group) is None


def test_a_swap_that_fails_takes_the_log_offline() -> None:
    storage = FaultyStorage()
    log = filled(storage)
    group = compact(log).groups[0]
    swap_files.commit(storage, "t-0", group)
    storage.fail("rename", lambda path: path.endswith(".log"))
    with pytest.raises(StorageFailed):
        log.replace(log.segments.sealed_below(30)[: len(group.sources)], group)
    assert log.health.failure is not None
    storage.mend()
    assert state(open_log(storage, recovery_point=30, **SETTINGS)) == state(filled())


@settings(max_examples=examples(60), deadline=None)
@given(cut=st.integers(0, 60), remains=st.sampled_from(Remains), seed=st.integers(0, 1000))
def test_whenever_the_power_goes_the_last_values_are_there(cut: int, remains: Remains, seed: int) -> None:
    """S5.2, S5.3: all old or all new, group by group, whatever names reached the disk."""
    storage = FaultyStorage()
    log = filled(storage)
    expected = state(log)
    storage.cut_at = len(storage.steps) + 1 + cut
    with contextlib.suppress(PowerCut):
        for path in swap_in(log, compact(log)):
            storage.remove(path)
    storage = storage.after_cut(remains, random.Random(seed))
    log = open_log(storage, recovery_point=30, **SETTINGS)
    assert state(log) == expected
    assert (log.start_offset, log.end_offset) == (0, 30)
    swap_in(log, compact(log))
    assert state(log) == expected


def test_truncating_beside_compacted_segments() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    swap_in(log, compact(log, upto=12))
    log.truncate_to(20)
    put(log, b"key-0", b"new")
    run_job(log.flush_job())
    assert state(log)[b"key-0"] == b"new"
    assert state(open_log(storage, recovery_point=20, **SETTINGS)) == state(log)
