"""Measured rates that quotas bound, and how long a client that exceeds one is held back.

A rate is the sum of the last windows, divided by their length: all full windows but one, and the
part of the present one that is over. So a client that was quiet may use what it saved in those
windows at once, and is held to the rate from then on. Source: Kafka's Rate, SampledStat,
QuotaUtils.
"""

from __future__ import annotations

from collections import deque

from kqueue.base.settings import INT_MAX


class Window:
    """One part of a rate's past. Times in milliseconds of the monotonic clock."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = self.last_ms = start_ms
        self.value = 0.0


class SampledRate:
    """The counted amount per second, over `count` windows of `window_ms` each."""

    __slots__ = ("_count", "_window_ms", "_windows")

    def __init__(self, count: int, window_ms: int) -> None:
        self._count = count
        self._window_ms = window_ms
        self._windows: deque[Window] = deque(maxlen=count + 1)

    def count(self, value: float, now_ms: float) -> None:
        """Count; a negative value takes back what was counted."""
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= self._window_ms:
            windows.append(Window(now_ms))
        last = windows[-1]
        last.value += value
        last.last_ms = now_ms

    def per_second(self, now_ms: float) -> float:
        """Return the rate."""
        length_ms = self._length_ms(now_ms)
        return sum(window.value for window in self._windows) * 1000 / length_ms if length_ms else 0.0

    def excess_ms(self, bound: float, now_ms: float) -> int:
        """Return after how many ms the rate is `bound` per second again; 0: it is not above."""
        length_ms = self._length_ms(now_ms)
        if not length_ms:
            return 0
        rate = sum(window.value for window in self._windows) * 1000 / length_ms
        return 0 if rate <= bound else min(INT_MAX, int((rate - bound) / bound * length_ms + 0.5))

    def is_zero(self, now_ms: float) -> bool:
        """Whether nothing that was counted matters any more."""
        self._drop_old(now_ms)
        return not self._windows

    def _length_ms(self, now_ms: float) -> float:
        """Return over how many ms the sum is spread: at least all windows but one."""
        self._drop_old(now_ms)
        elapsed_ms = now_ms - self._windows[0].start_ms if self._windows else 0.0
        missing = self._count - 1 - int(elapsed_ms // self._window_ms)
        elapsed_ms += max(0, missing) * self._window_ms
        return elapsed_ms or 1.0  # one window, which began just now

    def _drop_old(self, now_ms: float) -> None:
        oldest_ms = now_ms - self._count * self._window_ms
        windows = self._windows
        while windows and windows[0].last_ms <= oldest_ms:
            windows.popleft()
