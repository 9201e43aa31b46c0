"""Timers as a heap of deadlines that the owner runs; no thread, no event loop."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from kqueue.base.clock import Clock

CANCELLED_SPARE = 64
"""So many cancelled timers stay until their time, besides as many as there are pending ones."""


class Timer:
    """One call, due at `deadline_ms` on the monotonic clock."""

    __slots__ = ("_run", "_timers", "deadline_ms")

    def __init__(self, deadline_ms: float, run: Callable[[], object], timers: Timers) -> None:
        self.deadline_ms = deadline_ms
        self._timers = timers
        self._run: Callable[[], object] | None = run

    def cancel(self) -> None:
        """Cancel the call. No effect after it ran."""
        if self._run is not None:
            self._run = None
            self._timers._count_cancelled()

    @property
    def pending(self) -> bool:
        """Whether the call is still to come."""
        return self._run is not None


class PeriodicTimer:
    """A call every `interval_ms`, until `cancel`."""

    __slots__ = ("_run", "_timer", "_timers", "interval_ms")

    def __init__(self, timers: Timers, interval_ms: float, run: Callable[[], object], first_ms: float) -> None:
        self.interval_ms = interval_ms
        self._timers = timers
        self._run = run
        self._timer = timers.at(first_ms, self._fire)

    def cancel(self) -> None:
        """Cancel all further calls, also one that is due."""
        self._timer.cancel()

    @property
    def pending(self) -> bool:
        """Whether a call is still to come."""
        return self._timer.pending

    def _fire(self) -> None:
        # The next call is added first: a call that raises does not end the timer, and one that
        # cancels the timer does.
        now_ms = self._timers._now_ms()
        self._timer = self._timers.at(now_ms + max(self.interval_ms, self._timers._apart_ms(now_ms)), self._fire)
        self._run()


class Timers:
    """All timers of one owner thread, in order of deadline, then of creation.

    Attributes:
        on_earlier: called when a new timer becomes the first, so that the owner shortens its sleep.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0  # in the heap
        self._order = itertools.count()
        self._clock = clock
        self._target_ms: float | None = None
        self._parts = 1
        self.on_earlier: Callable[[], None] | None = None

    def at(self, deadline_ms: float, run: Callable[[], object]) -> Timer:
        """Call `run` once the monotonic clock reaches `deadline_ms`."""
        timer = Timer(deadline_ms, run, self)
        first = self.next_deadline_ms()
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        if self.on_earlier is not None and (first is None or deadline_ms < first):
            self.on_earlier()
        return timer

    def every(
        self, interval_ms: float, run: Callable[[], object], *, first_after_ms: float | None = None
    ) -> PeriodicTimer:
        """Call `run` every `interval_ms` > 0, first after `first_after_ms` (None: one interval).

        For work that may be late, see `coalesce_until`. An exception in a call reaches the caller
        of `run_due`, and the timer continues.
        """
        assert interval_ms > 0, "an interval of 0 would leave no time for anything else"
        return PeriodicTimer(
            self, interval_ms, run, self._now_ms() + (interval_ms if first_after_ms is None else first_after_ms)
        )

    def coalesce_until(self, target_ms: float | None, parts: int = 1) -> None:
        """While the clock is advanced to `target_ms`, run periodic timers less often; None ends
        that.

        Two calls of a periodic timer are at least a `parts`-th of the remaining time apart. So the
        number of calls grows with the logarithm of the time, and no call is later than a `parts`-th
        of the time that remained when it was due.
        """
        self._target_ms, self._parts = target_ms, parts

    def next_deadline_ms(self) -> float | None:
        """Return the first deadline of a pending timer, or None."""
        while self._heap and not self._heap[0][2].pending:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_ms: float, is_over: Callable[[], bool] | None = None) -> int:
        """Run the timers that are due at `now_ms`; after the first one, only until `is_over()`.

        Returns: how many ran.
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

    def _count_cancelled(self) -> None:
        """Remove the cancelled timers once they are more than the others.

        Requests cancel thousands per second, long before their deadlines.
        """
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + CANCELLED_SPARE:
            self._heap = [entry for entry in self._heap if entry[2].pending]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _apart_ms(self, now_ms: float) -> float:
        return 0.0 if self._target_ms is None else (self._target_ms - now_ms) / self._parts

    def _now_ms(self) -> float:
        assert self._clock is not None, "periodic timers need a clock"
        return self._clock.monotonic_ms()
