from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import CorruptBatch, JobCancelled, JobFailed, ProcessDied, StorageFailed
from kqueue.base.jobs import CpuJob
from kqueue.base.settings import Catalog
from kqueue.base.timers import Timers
from kqueue.log.cleaner import (
    PROCESS_DEATH_RETRY_MS,
    RETRY_MS,
    CompactionCandidate,
    LogCleaner,
    cleaner_config,
    roll_back_commit,
)
from kqueue.log.compaction import swap_files
from kqueue.log.config import SETTINGS, LogConfig
from kqueue.log.deletion import AsyncDeleter
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.policies.compact import LogToClean
from kqueue.records.batch import read_header
from kqueue.records.builder import BatchBuilder
from kqueue.storage import Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, flush, open_log, read_records
from kqueue.tests.log.test_log_segments import compact, filled, state
from kqueue.tests.tables import for_each

CATALOG = Catalog(SETTINGS)
TOPIC = {
    "segment.bytes": "400",
    "cleanup.policy": "compact",
    "index.interval.bytes": "0",
    "file.delete.delay.ms": "5000",
}


class Desk:
    """A cleaner with its surroundings, and logs to clean."""

    def __init__(self, **settings: object) -> None:
        self.config = Config(CATALOG, {name.replace("_", "."): value for name, value in settings.items()})
        self.topic = self.config.for_topic(TOPIC)
        self.storage = FaultyStorage()
        self.jobs = SteppedJobs()
        self.timers = Timers()
        self.clock = ManualClock(START_MS)
        self.manager = LogManager([self.storage], clock=self.clock, rng=random.Random(1), jobs=self.jobs)
        self.disposal = AsyncDeleter(self.jobs, self.timers, self.clock, self.manager.checkpoints.save_log_starts)
        self.cleaner = LogCleaner(self.config, self.manager, self.jobs, self.disposal, self.clock)

    def log(self, name: str, count: int = 20) -> Log:
        log = self.manager.open(name, 0, self.manager.new_topic_id(), LogConfig.from_values(self.topic))
        for number in range(count):
            builder = BatchBuilder()
            builder.append(START_MS + number, b"key-%d" % (number % 2), b"%d" % number + b"." * 100)
            data = builder.build()
            log.append(data, read_header(data), leader_epoch=0)
        flush(log)
        return log

    def candidate(self, log: Log, *, ratio: float = 1.0, overdue: bool = False, **facts: Any) -> CompactionCandidate:
        key = (log.folder.rpartition("-")[0], 0)
        log_to_clean = LogToClean(log.end_offset, int(1000 * (1 - ratio)), int(1000 * ratio), overdue)
        first_dirty = self.manager.checkpoints.cleaner_offset(key) or 0
        return CompactionCandidate(key, log, log.end_offset, first_dirty, log_to_clean, self.topic, **facts)

    def advance(self, ms: float) -> None:
        self.jobs.run_all()
        self.clock.advance(ms)
        self.timers.run_due(self.clock.monotonic_ms())
        self.jobs.run_all()

    def step_to(self, what: str) -> None:
        """Run jobs until the next one is called so."""
        while not self.jobs.pending[0].name.startswith(what):
            self.jobs.step()

    def names(self, log: Log, suffix: str) -> list[str]:
        return [entry.name for entry in self.storage.list(log.folder) if entry.name.endswith(suffix)]


# --- choosing


def test_overdue_logs_are_compacted_before_the_dirtiest() -> None:
    """S5.2"""
    desk = Desk()
    logs = {name: desk.log(name) for name in "abcd"}
    order: list[tuple[str, int]] = []
    todo = [
        desk.candidate(logs["a"], ratio=0.6),
        desk.candidate(logs["b"], ratio=0.1, overdue=True),
        desk.candidate(logs["c"], ratio=0.9),
        desk.candidate(logs["d"], ratio=0.2, overdue=True),
    ]
    for _ in todo:
        assert desk.cleaner.begin(one for one in todo if one.key not in order) == 1
        order += [one.key for one in todo if desk.cleaner.is_busy(one.key)]
        assert desk.cleaner.begin(todo) == 0, "one at a time"
        desk.jobs.run_all()
    assert [name for name, _ in order] == ["d", "b", "c", "a"]


def test_as_many_at_a_time_as_there_are_threads() -> None:
    desk = Desk(log_cleaner_threads=2)
    todo = [desk.candidate(desk.log(name)) for name in "abc"]
    assert desk.cleaner.begin(todo) == 2
    desk.jobs.run_all()
    assert desk.cleaner.room == 2


def test_compactions_are_counted_with_the_bytes_that_they_wrote() -> None:
    desk = Desk()
    desk.cleaner.begin([desk.candidate(desk.log("a"), ratio=0.6), desk.candidate(desk.log("b"), ratio=0.8)])
    desk.jobs.run_all()
    counts = desk.cleaner.counts
    assert (counts.runs, counts.failures, counts.dirty_ratio_max) == (1, 0, pytest.approx(0.8, rel=0.01))
    assert 0 < counts.written_bytes < counts.read_bytes
    assert counts.ended_ms == desk.clock.wall_ms()


shared: list[Storage] = []


def open_shared() -> Storage:
    """By its name alone, as what is pickled is found."""
    return shared.pop()


@pytest.mark.parametrize("opened", [True, False])
def test_a_storage_with_an_opener_is_compacted_in_another_process(
    opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    candidate = desk.candidate(desk.log("t"))
    monkeypatch.setattr(FaultyStorage, "opener", staticmethod(open_shared) if opened else None)
    shared[:] = [candidate.log.storage]
    desk.cleaner.begin([candidate])
    desk.step_to("compact")
    job = desk.jobs.pending[0]
    assert isinstance(job, CpuJob)
    assert job.shared == opened
    desk.jobs.run_all()
    assert bool(shared) != opened
    assert desk.manager.checkpoints.cleaner_offset(candidate.key) is not None


def test_shared_limits_are_divided_by_the_threads() -> None:
    desk = Desk(
        log_cleaner_threads=4,
        log_cleaner_dedupe_buffer_size=1 << 20,
        log_cleaner_io_buffer_size=1 << 16,
        log_cleaner_io_max_bytes_per_second=1000.0,
        log_cleaner_io_buffer_load_factor=0.7,
    )
    limits = cleaner_config(desk.config, desk.topic)
    assert (limits.dedupe_bytes, limits.io_buffer_bytes, limits.io_bytes_per_second, limits.load_factor) == (
        1 << 18,
        1 << 14,
        250.0,
        0.7,
    )
    assert (limits.segment_bytes, limits.index_interval_bytes, limits.delete_retention_ms) == (400, 0, 86_400_000)


def test_no_compaction_starts_without_work() -> None:
    desk = Desk()
    empty, clean, offline = desk.log("empty", 1), desk.log("clean"), desk.log("offline")
    offline.abandon()
    assert desk.cleaner.begin([desk.candidate(empty), desk.candidate(clean, ratio=0.0), desk.candidate(offline)]) == 0
    assert desk.jobs.pending[0].name.startswith("write") if desk.jobs.pending else True


# --- seeing it through


def test_the_steps_come_in_their_order() -> None:
    """S5.2, S5.3: the recovery point is on disk before, the cleaner's checkpoint written after."""
    desk = Desk()
    log = desk.log("t")
    before = state(log)
    desk.storage.steps.clear()
    assert desk.cleaner.begin([desk.candidate(log)]) == 1
    desk.jobs.run_all()
    steps = [f"{step.kind} {step.path.rpartition('/')[2]}" for step in desk.storage.steps]
    point = steps.index("rename recovery-point-offset-checkpoint.tmp")
    written = next(number for number, step in enumerate(steps) if step.endswith(".cleaned"))
    committed = next(
        number for number, step in enumerate(steps) if step.startswith("rename") and step.endswith(".log.cleaned")
    )
    gone = next(number for number, step in enumerate(steps) if step.startswith("rename") and step.endswith("0.log"))
    installed = next(
        number for number, step in enumerate(steps) if step.startswith("rename") and step.endswith(".log.swap")
    )
    checkpoint = steps.index("rename cleaner-offset-checkpoint.tmp")
    assert point < written < committed < gone < installed < checkpoint
    assert steps[committed + 1] == "sync_folder t-0"
    assert state(log) == before
    assert desk.manager.checkpoints.cleaner_offset(("t", 0)) == log.segments[-1].base
    assert desk.names(log, ".log.deleted") != []
    desk.advance(5000)
    assert desk.names(log, ".deleted") == []


def test_the_end_of_a_compaction_allows_the_next() -> None:
    desk = Desk()
    idle: list[int] = []
    desk.cleaner.on_idle = lambda: idle.append(desk.cleaner.room)
    desk.cleaner.begin([desk.candidate(desk.log("t"))])
    desk.jobs.run_all()
    assert idle == [1]
    assert not desk.cleaner.is_busy(("t", 0))


def is_seven(record: Any) -> bool:
    return bool(record.offset == 7)


@for_each("owns, offset", [(True, 18), (False, None)])
def test_a_filter_decides_in_place_of_keys_and_rests_afterwards(owns: bool, offset: int | None) -> None:
    desk = Desk()
    log = desk.log("t")
    todo = desk.candidate(log, ratio=0.0, keep=is_seven, owns_offset=owns)
    assert desk.cleaner.begin([todo]) == 1
    desk.jobs.run_all()
    active = log.segments[-1].base
    assert [record.offset for record in read_records(log) if record.offset < active] == [7]
    assert desk.manager.checkpoints.cleaner_offset(("t", 0)) == offset
    assert desk.cleaner.begin([desk.candidate(log, keep=is_seven)]) == 0
    desk.advance(desk.config["log.retention.check.interval.ms"])
    assert desk.cleaner.begin([desk.candidate(log, keep=is_seven)]) == 1


# --- what goes wrong


def fail_with(error: BaseException) -> Callable[[CpuJob[Any]], None]:
    return lambda job: job.finish(None, error)


@for_each(
    "error, retried",
    [(CorruptBatch("a bad sum"), False), (StorageFailed("no room"), True), (JobFailed("it died"), True)],
)
def test_a_failing_log_is_excluded_and_retried_where_that_may_help(error: Exception, retried: bool) -> None:
    desk = Desk()
    log = desk.log("t")
    desk.cleaner.begin([desk.candidate(log)])
    desk.step_to("compact")
    desk.jobs.pending.popleft().finish(None, error)
    assert desk.cleaner.uncleanable == {("t", 0): str(error)}
    assert desk.cleaner.begin([desk.candidate(log)]) == 0
    assert desk.cleaner.begin([desk.candidate(desk.log("other"))]) == 1
    desk.advance(RETRY_MS)
    assert desk.cleaner.begin([desk.candidate(log)]) == retried
    desk.jobs.run_all()
    assert (desk.cleaner.uncleanable == {}) == retried


def test_a_killed_process_is_retried_soon_and_its_log_excluded_after_repeated_deaths(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    log = desk.log("t")
    killed = ProcessDied("the process of a job was killed by SIGKILL")

    def die() -> None:
        assert desk.cleaner.begin([desk.candidate(log)]) == 1
        desk.step_to("compact")
        desk.jobs.pending.popleft().finish(None, killed)
        assert desk.cleaner.begin([desk.candidate(log)]) == 0

    for wait_ms in PROCESS_DEATH_RETRY_MS:
        die()
        assert desk.cleaner.uncleanable == {}
        desk.advance(wait_ms)
    die()
    assert desk.cleaner.uncleanable == {("t", 0): str(killed)}
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in messages] == ["WARNING", "WARNING", "ERROR"]
    assert all("SIGKILL" in message for _, message in messages)
    assert "retrying in 15 s" in messages[0][1]
    assert "excluded for 10 minutes" in messages[-1][1]

    desk.advance(RETRY_MS)
    assert desk.cleaner.begin([desk.candidate(log)]) == 1
    desk.jobs.run_all()
    assert desk.cleaner.uncleanable == {}
    for number in range(20):
        append(log, b"%d" % number + b"." * 100)
    flush(log)
    die()
    assert desk.cleaner.uncleanable == {}, "the count begins again after a success"


def test_once_the_broker_stops_nothing_new_begins() -> None:
    desk = Desk()
    log, other = desk.log("t"), desk.log("other")
    desk.cleaner.on_idle = lambda: begun.append(desk.cleaner.begin([desk.candidate(other)]))
    begun: list[int] = []
    desk.cleaner.begin([desk.candidate(log)])
    desk.step_to("compact")
    desk.jobs.pending.popleft().finish(None, JobCancelled("the broker stops"))
    assert begun == [0]
    assert desk.cleaner.uncleanable == {}


def test_without_the_recovery_point_nothing_is_compacted() -> None:
    desk = Desk()
    log = desk.log("t")
    desk.storage.fail("rename", lambda path: "recovery-point" in path)
    desk.cleaner.begin([desk.candidate(log)])
    desk.jobs.run_all()
    assert "EIO" in desk.cleaner.uncleanable[("t", 0)]
    assert len(read_records(log)) == 20
    assert desk.names(log, ".cleaned") == []


def test_a_commit_that_fails_leaves_the_names_to_the_next_start() -> None:
    desk = Desk()
    log = desk.log("t")
    before = state(log)
    desk.cleaner.begin([desk.candidate(log)])
    desk.step_to("commit")
    desk.storage.fail("rename", lambda path: path.endswith(".log.cleaned"))
    desk.jobs.run_all()
    desk.storage.mend()
    desk.advance(10 * RETRY_MS)
    assert log.health.failure is None
    assert desk.cleaner.begin([desk.candidate(log)]) == 0, (
        "another compaction would remove the .cleaned that invalidates the .swap"
    )
    assert state(log) == before
    left = desk.storage.after_cut(Remains.KEPT, random.Random(1))
    assert state(Log.open(left, "t-0", log.config, desk.clock, checkpoint=LogCheckpoint(recovery_point=20))) == before


def test_an_install_that_fails_takes_the_log_offline() -> None:
    desk = Desk()
    log = desk.log("t")
    before = state(log)
    desk.cleaner.begin([desk.candidate(log)])
    desk.step_to("commit")
    desk.storage.fail("rename", lambda path: path.endswith("0.log"))
    desk.jobs.run_all()
    assert log.health.failure is not None
    assert desk.cleaner.uncleanable == {}, "the log itself reports what is wrong"
    left = desk.storage.after_cut(Remains.KEPT, random.Random(1))
    assert state(Log.open(left, "t-0", log.config, desk.clock, checkpoint=LogCheckpoint(recovery_point=20))) == before


def test_a_checkpoint_that_can_not_be_written_costs_another_look_at_most() -> None:
    desk = Desk()
    log = desk.log("t")
    desk.storage.fail("rename", lambda path: "cleaner-offset" in path)
    desk.cleaner.begin([desk.candidate(log)])
    desk.jobs.run_all()
    assert len(read_records(log)) == 4
    assert desk.cleaner.uncleanable == {}
    assert desk.cleaner.room == 1


@pytest.mark.parametrize("step", range(14))
def test_a_log_that_is_deleted_at_any_step(step: int, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    log = desk.log("t")
    desk.cleaner.begin([desk.candidate(log)])
    for _ in range(step):
        desk.jobs.step()
    assert desk.manager.delete("t", 0)
    desk.advance(10_000)
    assert desk.cleaner.uncleanable == {}
    assert desk.cleaner.room == 1
    assert [entry.name for entry in desk.storage.list("") if entry.is_folder] == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# --- taking a commit back


def test_a_commit_can_be_rolled_back() -> None:
    storage = FaultyStorage()
    log = filled(storage)
    before = read_records(log)
    group = compact(log).groups[0]
    swap_files.commit(storage, "t-0", group)
    roll_back_commit(storage, "t-0", group)
    left = [entry.name for entry in storage.list("t-0") if entry.name.startswith(f"{group.cleaned.base:020d}")]
    assert sorted(left) == [f"{group.cleaned.base:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert read_records(open_log(storage, recovery_point=30, cleanup_policy="compact")) == before


@for_each("remains", list(Remains))
@for_each("cut", range(1, 8))
def test_a_power_cut_during_a_roll_back_leaves_all_old_or_all_new(cut: int, remains: Remains) -> None:
    storage = FaultyStorage()
    log = filled(storage)
    before = state(log)
    group = compact(log).groups[0]
    swap_files.commit(storage, "t-0", group)
    storage.cut_at = len(storage.steps) + cut
    try:
        roll_back_commit(storage, "t-0", group)
        assert cut == 7, "it has six steps"
    except PowerCut:
        pass
    for seed in range(5):
        left = storage.after_cut(remains, random.Random(seed))
        assert state(open_log(left, recovery_point=30, cleanup_policy="compact")) == before
