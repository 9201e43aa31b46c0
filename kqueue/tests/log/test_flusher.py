from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.log import Log
from kqueue.records.batch import ABORT
from kqueue.storage import LocalStorage
from kqueue.storage.descriptor_cache import DescriptorCache
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, check_log, end_transaction, flush, open_log, read_values, run_job
from kqueue.tests.thorough import corners


def synced(storage: FaultyStorage) -> list[str]:
    return [step.path.rpartition("/")[2] or step.path for step in storage.steps if step.kind in ("sync", "sync_folder")]


def flushed_log() -> tuple[FaultyStorage, Log]:
    storage = FaultyStorage()
    log = open_log(storage, segment_bytes=150, index_interval_bytes=0)
    append(log, b"first")
    flush(log)
    storage.steps.clear()
    return storage, log


def test_fsync_covers_all_pending_appends() -> None:
    """S5.3"""
    storage, log = flushed_log()
    append(log, b"a")
    log.config = type(log.config).of(segment_bytes=10_000)
    for _ in range(5):
        append(log, b"b")
    assert (log.flushed_offset, log.needs_flush) == (1, True)
    flush(log)
    assert (log.flushed_offset, log.end_offset, log.needs_flush) == (7, 7, False)
    assert synced(storage) == ["00000000000000000000.log"]


def test_the_first_flush_takes_along_the_names_and_the_epochs() -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a")
    flush(log)
    assert synced(storage) == ["00000000000000000000.log", "leader-epoch-checkpoint.tmp", "t-0", "t-0", ""] or set(
        synced(storage)
    ) == {
        "00000000000000000000.log",
        "leader-epoch-checkpoint.tmp",
        "t-0",
        "",
    }


def test_sealed_segments_are_flushed_with_their_indexes_and_snapshots() -> None:
    storage, log = flushed_log()
    append(log, b"x" * 100, producer_id=1, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, ABORT, 1)
    append(log, b"x" * 100)
    assert len(log.segments) > 2
    flush(log)
    names = synced(storage)
    for segment in log.segments[:-1]:  # type: ignore[attr-defined]
        for suffix in ("log", "index", "timeindex"):
            assert f"{segment.base:020d}.{suffix}" in names
    assert any(name.endswith(".txnindex") for name in names)
    assert sum(name.endswith(".snapshot") for name in names) == len(log.segments) - 1
    assert "t-0" in names


def test_ended_segments_are_due_to_be_flushed() -> None:
    _, log = flushed_log()
    append(log, b"a")
    assert not log.has_unflushed_segments
    log.roll()
    append(log, b"a")
    assert log.has_unflushed_segments
    flush(log)
    assert not log.has_unflushed_segments


def test_appends_go_on_while_other_threads_flush(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, DescriptorCache(4))
    config = LogConfig.of(segment_bytes=2000, index_interval_bytes=100)
    logs = [Log.open(storage, f"t-{number}", config, ManualClock(START_MS)) for number in range(6)]
    with ThreadPoolExecutor(2) as pool:
        flushing = {}
        for number in range(600):
            log = logs[number % len(logs)]
            append(log, b"%d" % number)
            for other, (job, done) in list(flushing.items()):
                if done.done():
                    del flushing[other]
                    job.finish(done.result(), None)
            new = log.flush_job()
            if new is not None:
                flushing[log.folder] = (new, pool.submit(new.run))
        for job, done in flushing.values():
            job.finish(done.result(), None)
    for number, log in enumerate(logs):
        flushed = log.flushed_offset
        assert flushed > 50
        again = Log.open(
            storage, log.folder, config, ManualClock(START_MS), checkpoint=LogCheckpoint(recovery_point=flushed)
        )
        assert read_values(again) == [b"%d" % value for value in range(number, 600, len(logs))]
        check_log(again)


def test_appends_during_a_flush_belong_to_the_next() -> None:
    _, log = flushed_log()
    append(log, b"a")
    job = log.flush_job()
    append(log, b"b")
    assert log.flush_job() is None, "one at a time"
    run_job(job)
    assert (log.flushed_offset, log.end_offset) == (2, 3)
    flush(log)
    assert log.flushed_offset == 3
    assert log.flush_job() is None, "nothing to do"


def test_listeners_run_after_the_flushed_offset_advances() -> None:
    _, log = flushed_log()
    heard: list[int] = []
    log.on_flushed = lambda: heard.append(log.flushed_offset)
    append(log, b"a")
    job = log.flush_job()
    assert job is not None
    job.run()
    assert heard == []
    job.finish(None, None)
    assert heard == [2]


def test_a_failed_fsync_makes_the_log_read_only_for_good() -> None:
    storage, log = flushed_log()
    heard: list[StorageFailed | None] = []
    log.on_flushed = lambda: heard.append(log.health.failure)
    append(log, b"a")
    storage.fail("sync")
    job = log.flush_job()
    assert job is not None
    with pytest.raises(StorageFailed) as caught:
        job.run()
    job.finish(None, caught.value)
    storage.mend()
    assert heard == [caught.value]
    assert log.flushed_offset == 1
    assert log.flush_job() is None
    for use in (
        lambda: append(log, b"b"),
        lambda: log.read(1, 100, end_offset=2),
        log.roll,
        lambda: log.truncate_to(0),
    ):
        with pytest.raises(StorageFailed, match="can't sync"):
            use()
    assert read_values(log, end_offset=1) == [b"first"], "what an earlier fsync covered is served"
    dropped = log.delete_before(2, high_watermark=2, why="a test")
    assert (dropped, log.start_offset) == (None, 0), "and nothing goes that was not flushed"
    storage.steps.clear()
    log.close()
    assert storage.steps == [], "a log that is offline is left as it is"


def test_an_error_of_another_kind_takes_it_offline_too() -> None:
    _, log = flushed_log()
    append(log, b"a")
    job = log.flush_job()
    assert job is not None
    job.finish(None, RuntimeError("the worker died"))
    assert log.health.failure is not None
    assert "the worker died" in str(log.health.failure)


def test_a_truncation_during_a_flush_lowers_what_it_has_flushed() -> None:
    _, log = flushed_log()
    append(log, b"a")
    append(log, b"b")
    job = log.flush_job()
    log.truncate_to(2)
    append(log, b"c")
    run_job(job)
    assert (log.flushed_offset, log.end_offset) == (2, 3)


def test_files_that_a_truncation_removed_need_no_flush() -> None:
    _, log = flushed_log()
    for _ in range(4):
        append(log, b"x" * 100)
    job = log.flush_job()
    log.truncate_to(1)
    run_job(job)
    assert log.health.failure is None
    assert log.flushed_offset == 1


def test_two_segments_between_two_flushes_become_durable_in_order() -> None:
    storage, log = flushed_log()
    log.roll()
    assert synced(storage) == []
    append(log, b"a")
    log.roll()
    assert synced(storage)[-1] == "t-0"
    assert {f"00000000000000000000{suffix}" for suffix in (".log", ".index", ".timeindex")} <= set(synced(storage))
    created = [
        number for number, step in enumerate(storage.steps) if step.kind == "create" and step.path.endswith(".log")
    ]
    syncs = [number for number, step in enumerate(storage.steps) if step.kind == "sync_folder"]
    assert created[0] < syncs[0] < created[1]


def test_closing_flushes_what_is_left_and_touches_nothing_where_nothing_is() -> None:
    storage, log = flushed_log()
    append(log, b"a")
    log.close()
    assert log.flushed_offset == 2
    storage.steps.clear()
    again = open_log(storage, clean=True)
    again.close()
    assert storage.steps == []


# --- rolls that do not wait for the disk (`Log.defers_rolls`)


def deferring_log() -> tuple[FaultyStorage, Log]:
    storage, log = flushed_log()
    log.defers_rolls = True
    return storage, log


def test_a_segment_goes_on_until_the_one_before_is_durable() -> None:
    storage, log = deferring_log()
    for _ in range(10):
        append(log, b"x" * 100)
    assert [segment.base for segment in log.segments] == [0, 1], "a third is not begun before the first is on the disk"
    assert synced(storage) == [], "and no append waits for that"
    job = log.flush_job()
    assert job is not None
    append(log, b"x" * 100)
    job.run()
    append(log, b"x" * 100)
    assert len(log.segments) == 2, "the job's end is not known yet"
    job.finish(None, None)
    append(log, b"x" * 100)
    assert [segment.base for segment in log.segments] == [0, 1, 13]
    check_log(log)


def test_a_roll_that_the_formats_ask_for_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, log = deferring_log()
    append(log, b"x" * 100)
    monkeypatch.setattr("kqueue.log.segment.POSITION_MAX", 400)
    for _ in range(3):
        append(log, b"x" * 100)
    assert [segment.base for segment in log.segments] == [0, 1, 3]
    assert "00000000000000000000.log" in synced(storage)


def test_a_roll_of_full_indexes_waits_for_the_disk() -> None:
    """Kafka makes the indexes of such a segment anew after a crash, and does not start where their
    entries are too many.
    """
    _storage, log = deferring_log()
    log.config = replace(log.config, segment_index_bytes=16, segment_bytes=1 << 20)
    for _ in range(12):
        append(log, b"x" * 100)
    log.flush_job()  # under way: nothing is known to be durable
    for _ in range(12):
        append(log, b"x" * 100)
    assert all(
        segment.index.entries.count <= 2
        for segment in [*log.segments.sealed_below(log.end_offset), log.segments.active]
    )
    check_log(log)


def live_with_slow_flushes(storage: FaultyStorage, confirmed: list[int]) -> None:
    """Segments of two batches, flushes that take three appends; `confirmed`: what was flushed, as
    it grows.
    """
    log = open_log(storage, segment_bytes=300, index_interval_bytes=0)
    log.defers_rolls = True
    log.on_flushed = lambda: confirmed.append(log.flushed_offset)
    job = None
    for number in range(24):
        append(log, b"%03d" % number * 30, producer_id=1, epoch=0, base_sequence=number)
        if job is None:
            job = log.flush_job()
        elif number % 3 == 1:
            job.run()
        elif number % 3 == 2:
            job.finish(None, None)
            job = None
    assert len(log.segments) >= 4


@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_a_power_cut_between_rolls_and_slow_flushes_takes_nothing_that_was_flushed(remains: Remains) -> None:
    """At every step in turn, and only the last two segments may be torn."""
    whole = FaultyStorage()
    live_with_slow_flushes(whole, [])
    for cut_at in range(1, len(whole.steps) + 1):
        storage, confirmed = FaultyStorage(cut_at=cut_at), list[int]()
        with pytest.raises(PowerCut):
            live_with_slow_flushes(storage, confirmed)
        log = open_log(storage.after_cut(remains, random.Random(cut_at)), segment_bytes=300, index_interval_bytes=0)
        values = read_values(log)
        assert values == [b"%03d" % number * 30 for number in range(len(values))]
        assert len(values) >= max(confirmed, default=0)
        assert log.damage == []
        check_log(log)
