from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable

import pytest

from kqueue.base.clock import SystemClock
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.event_loop import BrokerEventLoop
from kqueue.network.loop_driver import LoopDriver
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import until
from kqueue.tests.tables import for_each
from kqueue.workers.loop_pass import PASS_S


class DriverFixture:
    def __init__(self, clock: ManualClock | SystemClock) -> None:
        self.clock = clock
        self.timers = Timers()
        self.purgatory = Purgatory(self.timers, clock)
        self.flushes = 0
        self.loop_driver = LoopDriver(asyncio.get_running_loop(), clock, self.timers, self.purgatory, self._flush)

    def _flush(self) -> None:
        self.flushes += 1


def ticking(test: Callable[[DriverFixture], Awaitable[None]], clock: ManualClock | SystemClock | None = None) -> None:
    async def run() -> None:
        room = DriverFixture(clock or SystemClock())
        try:
            await test(room)
        finally:
            room.loop_driver.stop()

    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        runner.run(run())


def test_due_timers_run_in_order() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        now_ms = room.clock.monotonic_ms()
        room.timers.at(now_ms + 30, lambda: ran.append("late"))
        room.timers.at(now_ms + 5, lambda: ran.append("early"))
        room.timers.at(now_ms - 100, lambda: ran.append("overdue"))
        await until(lambda: len(ran) == 3)
        assert ran == ["overdue", "early", "late"]
        assert room.clock.monotonic_ms() - now_ms >= 30
        assert room.flushes >= 2

    ticking(test)


def test_alarm_of_a_cancelled_timer_runs_the_next_one() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        now_ms = room.clock.monotonic_ms()
        room.timers.at(now_ms + 5, lambda: ran.append("never")).cancel()
        room.timers.at(now_ms + 15, lambda: ran.append("then"))
        await until(lambda: bool(ran))
        assert ran == ["then"]

    ticking(test)


def test_timer_that_adds_timers_rearms_the_alarm() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[int] = []

        def again() -> None:
            ran.append(len(ran))
            room.timers.at(room.clock.monotonic_ms() + 1, again)

        again()
        await until(lambda: len(ran) >= 4)

    ticking(test)


def test_only_the_given_clock_decides_what_is_due() -> None:
    clock = ManualClock()

    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        room.timers.at(1_000_000, lambda: ran.append("far"))
        room.loop_driver.run_now()
        assert ran == []
        clock.advance(1_000_000)
        room.loop_driver.run_now()
        assert ran == ["far"]

    ticking(test, clock)


def test_ready_operations_run_once_per_turn() -> None:
    async def test(room: DriverFixture) -> None:
        answers: list[int] = []
        retries: list[bool] = []

        def retry(expired: bool) -> int:
            retries.append(expired)
            return 7

        room.purgatory.add(DelayedOperation(("a", "b"), None, retry), answers.append)
        room.purgatory.wake("a")
        room.purgatory.wake("b")
        assert answers == []
        before = room.flushes
        await asyncio.sleep(0)
        assert answers == [7]
        assert retries == [False]
        assert room.flushes == before + 1

    ticking(test)


def test_ready_operations_run_before_the_next_turn() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        asyncio.get_running_loop().call_soon(lambda: ran.append("next turn"))
        room.purgatory.defer(lambda: ran.append("ready"))
        room.loop_driver.run_now()
        room.purgatory.defer(lambda: ran.append("ready again"))
        assert ran == ["ready"]
        await until(lambda: len(ran) == 3)
        assert ran == ["ready", "ready again", "next turn"]

    ticking(test)


def test_failed_callback_is_logged_and_the_rest_runs(caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []

        def fail() -> None:
            raise ZeroDivisionError

        now_ms = room.clock.monotonic_ms()
        room.timers.at(now_ms, fail)
        room.timers.at(now_ms, lambda: ran.append("timer"))
        room.purgatory.defer(fail)
        room.purgatory.defer(lambda: ran.append("deferred"))
        await until(lambda: sorted(ran) == ["deferred", "timer"])

    with caplog.at_level(logging.ERROR, "kqueue"):
        ticking(test)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "a delayed operation failed",
        "a timer failed",
    ]


def test_nothing_runs_after_stop() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        room.timers.at(room.clock.monotonic_ms() + 1, lambda: ran.append("timer"))
        room.purgatory.defer(lambda: ran.append("deferred"))
        room.loop_driver.stop()
        room.timers.at(room.clock.monotonic_ms(), lambda: ran.append("timer"))
        room.purgatory.defer(lambda: ran.append("deferred"))
        await asyncio.sleep(0.01)
        assert ran == []

    ticking(test)


def test_work_due_before_the_ticker_starts_is_run() -> None:
    async def test() -> None:
        clock = SystemClock()
        timers = Timers()
        waiting = Purgatory(timers, clock)
        ran: list[str] = []
        timers.at(clock.monotonic_ms(), lambda: ran.append("timer"))
        waiting.defer(lambda: ran.append("deferred"))
        ticker = LoopDriver(asyncio.get_running_loop(), clock, timers, waiting, lambda: None)
        await until(lambda: sorted(ran) == ["deferred", "timer"])
        ticker.stop()

    asyncio.run(test())


@for_each("kind", ["waits", "timers"])
def test_long_work_lets_the_loop_poll_between_passes(kind: str) -> None:
    async def test(room: DriverFixture) -> None:
        now_s, ran, ran_at_poll = 0.0, 0, list[int]()
        room.loop_driver._now = lambda: now_s

        def work() -> None:
            nonlocal now_s, ran
            now_s += PASS_S / 4
            ran += 1

        def poll() -> None:
            ran_at_poll.append(ran)
            if ran < 20:
                asyncio.get_running_loop().call_soon(poll)

        for _ in range(20):
            if kind == "waits":
                room.purgatory.defer(work)
            else:
                room.timers.at(room.clock.monotonic_ms(), work)
        poll()
        await until(lambda: ran == 20)
        assert max(later - earlier for earlier, later in itertools.pairwise([*ran_at_poll, 20])) <= 2 * 5, "two passes"

        for _ in range(20):
            room.purgatory.defer(work)
        room.loop_driver.run_now()
        assert ran == 40, "a drain runs everything"

    ticking(test)


def test_operations_that_a_pass_made_ready_run_in_the_same_iteration_of_the_loop() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []

        def work() -> None:
            ran.append("work")
            room.purgatory.defer(lambda: ran.append("ready"))

        room.loop_driver.run_pass(work)
        assert (ran, room.flushes) == (["work", "ready"], 1)
        room.loop_driver.stop()
        room.loop_driver.run_pass(work)
        assert ran == ["work", "ready", "work"], "a stopped driver runs the work alone"

    ticking(test)


def test_operations_that_become_ready_after_a_failed_pass_run() -> None:
    async def test(room: DriverFixture) -> None:
        ran: list[str] = []
        with pytest.raises(ZeroDivisionError):
            room.loop_driver.run_pass(lambda: ran.append(str(1 // 0)))
        room.purgatory.defer(lambda: ran.append("ready"))
        await until(lambda: ran == ["ready"])

    ticking(test)
