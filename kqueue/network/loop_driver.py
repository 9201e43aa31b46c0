"""Runs due timers and ready delayed operations on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kqueue.base import events
from kqueue.base.clock import Clock, monotonic_s
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import Purgatory
from kqueue.network.event_loop import turn_end_of
from kqueue.workers.loop_pass import PASS_S

logger = logging.getLogger("kqueue.server")


class LoopDriver:
    """Wakes the loop at the first deadline of `timers`, and runs the operations of the purgatory
    that are ready at the end of each turn.

    The loop's own callbacks run for `PASS_S` at most before the loop polls its sockets again. The
    public methods run everything that is due.

    Args:
        after: called after each run, to send the responses that became complete.
        now: seconds of a monotonic clock, for `PASS_S`.

    A cancelled timer leaves its alarm set, which then finds nothing to do. Setting a new alarm for
    each cancelled timer would cost more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        purgatory: Purgatory,
        after: Callable[[], None],
        now: Callable[[], float] = monotonic_s,
    ) -> None:
        self._now = now
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._purgatory = purgatory
        self._after = after
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0.0
        self._at_turn_end = turn_end_of(loop)
        self._is_run_due = False
        self._will_run = False  # at the end of a turn, if a run is due then
        self._stopped = False
        timers.on_earlier = self._arm
        purgatory.on_ready = self._run_soon
        self._arm()
        if purgatory.ready:
            self._run_soon()

    def stop(self) -> None:
        """Run nothing more. Pending timers and operations stay where they are."""
        self._stopped = True
        self._timers.on_earlier = None
        self._purgatory.on_ready = None
        self._is_run_due = False
        self._disarm()

    def run_now(self) -> None:
        """Run everything that is due or ready now."""
        self._disarm()
        self.run_due(self._clock.monotonic_ms())
        self._arm()
        self.run_ready()

    def run_due(self, now_ms: float, is_over: Callable[[], bool] | None = None) -> None:
        """Run the timers that are due, until `is_over`. The failure of one is logged; those after
        it run with the next call.
        """
        try:
            self._timers.run_due(now_ms, is_over)
        except Exception:
            events.INTERNAL_ERROR.log(logger, "a timer failed", exc_info=True)
        self._after()

    def run_ready(self, is_over: Callable[[], bool] | None = None) -> None:
        """Run the operations that are ready, until `is_over`. The failure of one is logged; those
        after it run with the next call.
        """
        self._purgatory.on_ready = None  # what becomes ready meanwhile runs here
        try:
            self._purgatory.run_ready(is_over)
        except Exception:
            events.INTERNAL_ERROR.log(logger, "a delayed operation failed", exc_info=True)
        finally:
            if not self._stopped:
                self._purgatory.on_ready = self._run_soon
        self._is_run_due = False
        self._after()
        if self._purgatory.ready:  # a failure or the time limit left some, and nothing else would run them
            self._run_soon()

    def run_pass(self, work: Callable[[], None]) -> None:
        """Run `work`, then the operations that it made ready, in the same iteration of the loop."""
        self._purgatory.on_ready = None
        try:
            work()
        finally:
            if not self._stopped:
                self._purgatory.on_ready = self._run_soon
        if self._purgatory.ready and not self._stopped:
            self.run_ready(self._one_pass())

    @property
    def has_ready(self) -> bool:
        """Whether operations are ready."""
        return self._purgatory.ready

    def rearm(self) -> None:
        """Set the alarm again: the clock was moved."""
        self._disarm()
        self._arm()

    def _arm(self) -> None:
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None or self._stopped:
            return
        if self._alarm is not None:
            if self._alarm_ms <= deadline_ms:
                return
            self._alarm.cancel()
        delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
        self._alarm_ms = deadline_ms
        self._alarm = self._loop.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._disarm()
        self.run_due(self._clock.monotonic_ms(), self._one_pass())
        self._arm()

    def _end_turn(self) -> None:
        self._will_run = False
        if self._is_run_due:
            self.run_ready(self._one_pass())

    def _one_pass(self) -> Callable[[], bool]:
        now, until = self._now, self._now() + PASS_S
        return lambda: now() >= until

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _run_soon(self) -> None:
        if self._stopped:
            return
        self._is_run_due = True
        if not self._will_run:
            self._will_run = True
            self._at_turn_end(self._end_turn)
