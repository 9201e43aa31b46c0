from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest import mock

import pytest

from kqueue.base import clock as clock_module
from kqueue.base.clock import OffsetClock, SystemClock
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network import advance as push_module
from kqueue.network.advance import Advanced, advance_time
from kqueue.network.loop_driver import LoopDriver
from kqueue.tests.network.harness import serving, until
from kqueue.workers.executor import JobExecutor

DAY_MS = 86_400_000


class AdvanceFixture:
    """The parts of a server that `advance` drives."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = OffsetClock()
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers, self.clock)
        self.jobs = JobExecutor(loop, 2)
        self.start_ms = self.clock.monotonic_ms()
        self.ran: list[tuple[str, int]] = []
        self.loop_driver = LoopDriver(loop, self.clock, self.timers, self.purgatory, lambda: None)

    def note(self, name: str) -> None:
        """Record that `name` ran, in whole milliseconds from the start."""
        self.ran.append((name, round(self.clock.monotonic_ms() - self.start_ms)))

    def after(self, ms: float, run: Callable[[], object]) -> None:
        self.timers.at(self.start_ms + ms, run)

    def advance_time(self, ms: float) -> None:
        advance_time(ms, self.clock, [Advanced(self.timers, self.loop_driver, self.jobs)])

    def job(self, run: Callable[[], object], then: Callable[[], object]) -> None:
        self.jobs.submit(IoJob("a job", run, lambda result, error: then()))


def in_room(test: Callable[[AdvanceFixture], Awaitable[None]]) -> None:
    """Run the test while the machine's clock stands, so that time moves by `advance_time` only."""
    now_ns = clock_module.monotonic_ns()

    async def run() -> None:
        room = AdvanceFixture()
        try:
            await test(room)
        finally:
            room.loop_driver.stop()
            room.jobs.stop()

    with mock.patch.object(clock_module, "monotonic_ns", return_value=now_ns):
        asyncio.run(run())


def test_advance_waits_for_jobs_and_their_follow_up_jobs_at_each_instant() -> None:
    async def test(room: AdvanceFixture) -> None:
        gate = threading.Event()

        def first() -> None:
            room.note("timer")
            room.job(lambda: gate.wait(60), second)
            threading.Timer(0.02, gate.set).start()

        def second() -> None:
            room.note("job")
            room.jobs.submit(CpuJob("another", int, lambda result, error: third(), shared=False))

        def third() -> None:
            room.note("job's job")
            room.purgatory.defer(lambda: room.note("deferred"))
            room.timers.at(room.clock.monotonic_ms() + 60_000, lambda: room.note("a minute later"))

        room.after(DAY_MS, first)
        room.after(DAY_MS + 1, lambda: room.note("the next"))
        room.advance_time(8 * DAY_MS)
        assert room.ran == [
            ("timer", DAY_MS),
            ("job", DAY_MS),
            ("job's job", DAY_MS),
            ("deferred", DAY_MS),
            ("the next", DAY_MS + 1),
            ("a minute later", DAY_MS + 60_000),
        ]
        assert not room.jobs.under_way

    in_room(test)


def test_advance_completes_running_jobs_before_it_moves_time() -> None:
    async def test(room: AdvanceFixture) -> None:
        room.job(int, lambda: room.note("job"))
        room.purgatory.defer(lambda: room.note("deferred"))
        room.advance_time(DAY_MS)
        assert room.ran == [("deferred", 0), ("job", 0)]

    in_room(test)


def test_delayed_operations_end_at_their_deadlines() -> None:
    async def test(room: AdvanceFixture) -> None:
        answers: list[tuple[bool, int]] = []

        def retry(expired: bool) -> tuple[bool, int] | None:
            return (expired, round(room.clock.monotonic_ms() - room.start_ms)) if expired else None

        room.purgatory.add(DelayedOperation(("key",), room.start_ms + 500, retry), answers.append)
        room.advance_time(499)
        assert answers == []
        room.advance_time(DAY_MS)
        assert answers == [(True, 500)]

    in_room(test)


def test_long_advance_runs_periodic_timers_rarely_and_on_time_at_its_end() -> None:
    async def test(room: AdvanceFixture) -> None:
        room.timers.every(1000, lambda: room.note("upkeep"))
        room.advance_time(8 * DAY_MS)
        assert len(room.ran) < 300
        end_ms = room.clock.monotonic_ms() - room.start_ms
        assert end_ms - room.ran[-1][1] <= 1100
        assert [later - one for (_, one), (_, later) in pairwise(room.ran[-15:])] == [1000] * 14
        assert room.timers.next_deadline_ms() == pytest.approx(room.start_ms + room.ran[-1][1] + 1000, abs=1)

    in_room(test)


def test_loop_sleeps_by_the_advanced_clock() -> None:
    async def test(room: AdvanceFixture) -> None:
        room.after(DAY_MS + 20, lambda: room.note("soon after"))
        room.advance_time(DAY_MS)
        assert room.ran == []
        now_ns = clock_module.monotonic_ns() + 20_000_000
        with mock.patch.object(clock_module, "monotonic_ns", return_value=now_ns):
            await until(lambda: bool(room.ran))

    in_room(test)


def test_failed_timer_is_logged_and_advance_continues(caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: AdvanceFixture) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        room.after(1000, fail)
        room.after(1000, lambda: room.note("behind it"))
        room.after(2000, lambda: room.purgatory.defer(fail))
        room.after(2000, lambda: room.purgatory.defer(lambda: room.note("deferred")))
        room.after(3000, lambda: room.job(fail, fail))
        room.after(4000, lambda: room.note("last"))
        room.advance_time(5000)
        assert room.ran == [("behind it", 1000), ("deferred", 2000), ("last", 4000)]

    in_room(test)
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert messages == [
        "a timer failed",
        "a delayed operation failed",
        "job a job ended, but its finish failed",
    ]


def test_slow_job_is_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_module, "WARN_AFTER_S", 0.01)
    gate = threading.Event()

    class Opens(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "time cannot advance before these jobs end: a job" in record.getMessage():
                gate.set()

    handler = Opens()
    logging.getLogger("kqueue.server").addHandler(handler)

    async def test(room: AdvanceFixture) -> None:
        room.after(1000, lambda: room.job(lambda: gate.wait(60), lambda: room.note("ended")))
        room.advance_time(2000)
        assert room.ran == [("ended", 1000)]

    try:
        in_room(test)
    finally:
        logging.getLogger("kqueue.server").removeHandler(handler)
    assert gate.is_set()


def test_watchdog_excuses_waits_but_not_timers() -> None:
    async def test(room: AdvanceFixture) -> None:
        excused: list[bool] = []

        @contextmanager
        def excuse() -> Iterator[None]:
            excused.append(True)
            yield
            excused.append(False)

        said: list[tuple[str, bool]] = []
        room.after(1000, lambda: said.append(("timer", excused[-1])))
        room.after(1000, lambda: room.job(int, lambda: said.append(("job", excused[-1]))))
        advance_time(2000, room.clock, [Advanced(room.timers, room.loop_driver, room.jobs)], excuse)
        assert said == [("timer", False), ("job", True)]
        assert not excused[-1]

    in_room(test)


def test_advance_requires_an_offset_clock() -> None:
    async def test() -> None:
        async with serving() as server:
            assert isinstance(server.clock, SystemClock)
            with pytest.raises(RuntimeError, match="can't be advanced"):
                await server.advance(1000)
            server.clock = OffsetClock()
            server._stopping = True
            with pytest.raises(RuntimeError, match="is stopping"):
                await server.advance(1000)
            server._stopping = False

    asyncio.run(test())
