"""Timers as plain data: a heap of deadlines that its owner runs; no thread, no event loop."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from kqueue.base.clock import Clock


class Timer:
    """One call due at `deadline_ms` on the monotonic clock; `cancel()` makes it never happen."""

    __slots__ = ("_run", "deadline_ms")

    def __init__(self, deadline_ms: float, run: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self._run: Callable[[], object] | None = run

    def cancel(self) -> None:
        """Take the call back; after it ran, or twice, is harmless."""
        self._run = None

    @property
    def pending(self) -> bool:
        return self._run is not None


class PeriodicTimer:
    """Calls that are due again and again, each `interval_ms` after the one before; `cancel()` ends
    them.
    """

    __slots__ = ("_run", "_timer", "_timers", "interval_ms")

    def __init__(self, timers: Timers, interval_ms: float, run: Callable[[], object], first_ms: float) -> None:
        self.interval_ms = interval_ms
        self._timers = timers
        self._run = run
        self._timer = timers.at(first_ms, self._ring)

    def cancel(self) -> None:
        """No more calls, not even one that is due; twice is harmless."""
        self._timer.cancel()

    @property
    def pending(self) -> bool:
        return self._timer.pending

    def _ring(self) -> None:
        # first the next one: a call that fails does not end the series, and one that cancels it
        # does
        now_ms = self._timers._now_ms()
        self._timer = self._timers.at(now_ms + max(self.interval_ms, self._timers._apart_ms(now_ms)), self._ring)
        self._run()


class Timers:
    """All timers of one owner thread, in order of deadline, then of creation.

    `clock`: what the deadlines are of; only `every` needs to know it. `on_earlier` (if set) is
    called when a new timer becomes the first, so that the owner can shorten its sleep.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._clock = clock
        self._target_ms: float | None = None
        self._parts = 1
        self.on_earlier: Callable[[], None] | None = None

    def at(self, deadline_ms: float, run: Callable[[], object]) -> Timer:
        """Call `run` once the monotonic clock reaches `deadline_ms`."""
        timer = Timer(deadline_ms, run)
        first = self.next_deadline_ms()
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        if self.on_earlier is not None and (first is None or deadline_ms < first):
            self.on_earlier()
        return timer

    def every(
        self, interval_ms: float, run: Callable[[], object], *, first_after_ms: float | None = None
    ) -> PeriodicTimer:
        """Call `run` each `interval_ms` (more than 0) from now on, the first time after
        `first_after_ms` (None: one interval).

        For upkeep that loses nothing by being late: see `coalesce_until`. An exception in one call goes to
        whoever runs the timers, and the next call comes all the same.
        """
        assert interval_ms > 0, "what is due again at once would leave no time for anything else"
        return PeriodicTimer(
            self, interval_ms, run, self._now_ms() + (interval_ms if first_after_ms is None else first_after_ms)
        )

    def coalesce_until(self, target_ms: float | None, parts: int = 1) -> None:
        """While much time passes at once, up to `target_ms`: let two calls of a series be apart by
        a `parts`th of what is left, at least.

        So they grow closer towards the target, and come at their own intervals at last: the number
        of calls grows with the logarithm of the time, and none is later than by a `parts`th of the
        time that was left when it was due. None: there is no such target any more.
        """
        self._target_ms, self._parts = target_ms, parts

    def next_deadline_ms(self) -> float | None:
        """Deadline of the first pending timer; None when there is none."""
        while self._heap and not self._heap[0][2].pending:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_ms: float, is_over: Callable[[], bool] | None = None) -> int:
        """Run what is due at `now_ms` (not what these calls add for later), but after the first
        only until `is_over()`.

        Returns how many ran.
        """
        count = 0
        while (first := self.next_deadline_ms()) is not None and first <= now_ms:
            if count and is_over is not None and is_over():
                break
            timer = heapq.heappop(self._heap)[2]
            run, timer._run = timer._run, None
            assert run is not None
            run()
            count += 1
        return count

    def _apart_ms(self, now_ms: float) -> float:
        return 0.0 if self._target_ms is None else (self._target_ms - now_ms) / self._parts

    def _now_ms(self) -> float:
        assert self._clock is not None, "these timers were given no clock to count intervals by"
        return self._clock.monotonic_ms()
