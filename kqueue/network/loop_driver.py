"""Moves the broker's time on the event loop: timers when they are due, waits when they are ready."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from kqueue.base.clock import Clock
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import Purgatory
from kqueue.workers.loop_pass import PASS_S

logger = logging.getLogger("kqueue.server")


class LoopDriver:
    """Sleeps until the first deadline of `timers` by the given clock; runs ready waits once per
    turn of the loop.

    What is due runs for `PASS_S` at most before the loop polls its sockets again; the methods that
    are public run all of it.

    `after` is called after either, to send what became answerable. An alarm that is set too early
    (its timer was cancelled) is left alone and finds nothing to do: re-arming for each cancelled
    timer would cost more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        waiting: Purgatory,
        after: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._waiting = waiting
        self._after = after
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0.0
        self._soon: asyncio.Handle | None = None
        self._stopped = False
        timers.on_earlier = self._arm
        waiting.on_ready = self._run_soon
        self._arm()
        if waiting.ready:
            self._run_soon()

    def stop(self) -> None:
        """No more calls; the timers and waits that are left stay where they are."""
        self._stopped = True
        self._timers.on_earlier = None
        self._waiting.on_ready = None
        for handle in (self._alarm, self._soon):
            if handle is not None:
                handle.cancel()

    def run_now(self) -> None:
        """Run everything that is due at this moment."""
        self._disarm()
        self.run_due(self._clock.monotonic_ms())
        self._arm()
        self.run_ready()

    def run_due(self, now_ms: float, is_over: Callable[[], bool] | None = None) -> None:
        """Run the timers that are due; one that fails is logged, and those behind it have their
        turn with the next call.
        """
        try:
            self._timers.run_due(now_ms, is_over)
        except Exception:
            logger.exception("a timer failed")
        self._after()

    def run_ready(self, is_over: Callable[[], bool] | None = None) -> None:
        """Run the waits that are ready; one that fails is logged, and the rest have their turn with
        the next call.
        """
        try:
            self._waiting.run_ready(is_over)
        except Exception:
            logger.exception("work that was put off failed")
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._after()
        if (
            self._waiting.ready
        ):  # a failure or the time left the rest of the queue, and nothing else would come back for it
            self._run_soon()

    @property
    def has_ready(self) -> bool:
        """Whether a failure left something for another `run_ready`."""
        return self._waiting.ready

    def wake_anew(self) -> None:
        """The clock was moved: sleep until the first deadline by what it shows now."""
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
        self._alarm = self._loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._disarm()
        self.run_due(self._clock.monotonic_ms(), self._one_pass())
        self._arm()

    def _run_some(self) -> None:
        self.run_ready(self._one_pass())

    def _one_pass(self) -> Callable[[], bool]:
        now, until = self._now, self._now() + PASS_S
        return lambda: now() >= until

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _run_soon(self) -> None:
        if self._soon is None and not self._stopped:
            self._soon = self._loop.call_soon(self._run_some)
