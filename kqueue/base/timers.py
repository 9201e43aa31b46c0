"""Timers as plain data: a heap of deadlines that its owner runs; no thread, no event loop."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timer:
    """One call due at `deadline_ms` on the monotonic clock; `cancel()` makes it never happen."""

    __slots__ = ("_run", "deadline_ms")

    def __init__(self, deadline_ms: float, run: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self._run: Callable[[], None] | None = run

    def cancel(self) -> None:
        """Take the call back; after it ran, or twice, is harmless."""
        self._run = None

    @property
    def pending(self) -> bool:
        return self._run is not None


class Timers:
    """All timers of one owner thread, in order of deadline, then of creation.

    `on_earlier` (if set) is called when a new timer becomes the first, so that the owner can shorten its sleep.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self.on_earlier: Callable[[], None] | None = None

    def at(self, deadline_ms: float, run: Callable[[], None]) -> Timer:
        """Call `run` once the monotonic clock reaches `deadline_ms`."""
        timer = Timer(deadline_ms, run)
        first = self.next_deadline_ms()
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        if self.on_earlier is not None and (first is None or deadline_ms < first):
            self.on_earlier()
        return timer

    def next_deadline_ms(self) -> float | None:
        """Deadline of the first pending timer; None when there is none."""
        while self._heap and not self._heap[0][2].pending:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_ms: float) -> int:
        """Run what is due at `now_ms` (not what these calls add for later); returns how many ran."""
        count = 0
        while (first := self.next_deadline_ms()) is not None and first <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            run, timer._run = timer._run, None
            assert run is not None
            run()
            count += 1
        return count
