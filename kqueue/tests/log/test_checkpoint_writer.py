"""The checkpoints of open logs; `test_power_cut` and `test_deletion` cover power cuts."""

from __future__ import annotations

import random

import pytest

from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, decode_offsets
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, flush

KEY = ("t", 0)


class Setup:
    """A manager with one open log of three records, none flushed."""

    def __init__(self) -> None:
        self.storage, self.jobs = FaultyStorage(), SteppedJobs()
        self.manager = LogManager([self.storage], clock=ManualClock(START_MS), rng=random.Random(1), jobs=self.jobs)
        self.log: Log = self.manager.open("t", 0, bytes(16), LogConfig.of())
        for value in (b"a", b"b", b"c"):
            append(self.log, value)

    def offsets(self, name: str) -> dict[tuple[str, int], int]:
        self.jobs.run_all()
        return decode_offsets(self.storage.read(name)) if self.storage.exists(name) else {}


def test_the_recovery_point_is_the_flushed_offset_or_the_log_start_above_it() -> None:
    """S3.8"""
    setup = Setup()
    results: list[BaseException | None] = []
    setup.manager.checkpoints.save_recovery_point(KEY, results.append)
    assert setup.offsets(RECOVERY_POINTS) == {KEY: 0}
    setup.log.advance_start(2)
    setup.manager.checkpoints.save_recovery_point(KEY, results.append)
    assert setup.offsets(RECOVERY_POINTS) == {KEY: 2}
    flush(setup.log)
    setup.manager.checkpoints.save_recovery_point(KEY, results.append)
    assert setup.offsets(RECOVERY_POINTS) == {KEY: 3}
    assert results == [None] * 3


def test_a_log_start_is_written_after_the_recovery_points() -> None:
    setup = Setup()
    flush(setup.log)
    setup.log.advance_start(2)
    setup.storage.steps.clear()
    setup.manager.checkpoints.save_log_starts(KEY, lambda error: None)
    assert setup.offsets(LOG_STARTS) == {KEY: 2}
    renamed = [step.path for step in setup.storage.steps if step.kind == "rename"]
    assert [path.partition("-checkpoint")[0] for path in renamed] == ["recovery-point-offset", "log-start-offset"]


def test_an_announced_log_start_is_written_before_it_holds() -> None:
    setup = Setup()
    flush(setup.log)
    setup.log.announce_start(3)
    setup.manager.checkpoints.save_log_starts(KEY, lambda error: None)
    assert setup.offsets(LOG_STARTS) == {KEY: 3}
    assert setup.log.start_offset == 0


def test_a_cleaner_offset_is_kept_until_it_is_removed() -> None:
    setup = Setup()
    setup.manager.checkpoints.save_cleaner_offset(KEY, 2, lambda error: None)
    assert (setup.offsets(CLEANER_OFFSETS), setup.manager.checkpoints.cleaner_offset(KEY)) == ({KEY: 2}, 2)
    setup.manager.checkpoints.save_cleaner_offset(KEY, None, lambda error: None)
    assert (setup.offsets(CLEANER_OFFSETS), setup.manager.checkpoints.cleaner_offset(KEY)) == ({}, None)


def test_a_failed_checkpoint_is_logged_and_reported_and_the_old_one_holds(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.manager.checkpoints.save_recovery_point(KEY, lambda error: None)
    assert setup.offsets(RECOVERY_POINTS) == {KEY: 0}
    flush(setup.log)
    setup.storage.fail("rename")
    errors: list[BaseException | None] = []
    setup.manager.checkpoints.save_recovery_point(KEY, errors.append)
    assert setup.offsets(RECOVERY_POINTS) == {KEY: 0}
    assert "EIO" in str(errors[0])
    assert "recovery-point-offset-checkpoint could not be written, the old one still holds" in caplog.text


def test_a_missing_partition_completes_at_once() -> None:
    setup = Setup()
    results: list[BaseException | None] = []
    for save in (setup.manager.checkpoints.save_recovery_point, setup.manager.checkpoints.save_log_starts):
        save(("gone", 0), results.append)
    setup.manager.checkpoints.note_high_watermark("gone", 0, 5)
    assert results == [None, None]
    assert not setup.jobs.pending
