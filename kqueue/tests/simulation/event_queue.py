"""Virtual time for several brokers: one queue of events, and a clock for each broker."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

EPSILON_MS = 1e-6
"""Added to deadlines of clocks that drift: rounding must not leave a timer just before its time."""


class EventQueue:
    """Calls in order of their time, then of their creation. `now_ms`: time since the beginning."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.count = 0
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def at(self, time_ms: float, run: Callable[[], object]) -> None:
        """Call `run` at `time_ms`, or now if that is past."""
        heapq.heappush(self._heap, (time_ms, next(self._order), run))

    def after(self, delay_ms: float, run: Callable[[], object]) -> None:
        """Call `run` after `delay_ms`."""
        self.at(self.now_ms + delay_ms, run)

    def run_until(self, time_ms: float) -> None:
        """Run all events up to `time_ms`, each at its time. `count` counts them."""
        heap = self._heap
        while heap and heap[0][0] <= time_ms:
            due_ms, _, run = heapq.heappop(heap)
            self.now_ms = max(self.now_ms, due_ms)
            self.count += 1
            run()
        self.now_ms = max(self.now_ms, time_ms)


class DriftingClock:
    """A `Clock` that runs at `rate` times the speed of the queue's time.

    Args: wall_ms: what the wall clock shows at the beginning.
    """

    def __init__(self, queue: EventQueue, rate: float = 1.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._queue = queue
        self._rate = rate
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970 UTC."""
        return int(self._wall_ms + self.monotonic_ms())

    def monotonic_ms(self) -> float:
        """Return the monotonic clock in milliseconds; 0 at the beginning."""
        return self._queue.now_ms * self._rate

    def time_of(self, monotonic_ms: float) -> float:
        """Return the queue's time at which this clock has reached `monotonic_ms`."""
        return monotonic_ms / self._rate + EPSILON_MS
