"""A deadline that is moved far more often than it is reached."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.timers import Timer, Timers


class LazyTimer:
    """Calls `run` once the monotonic clock reaches the time set last.

    Moving it back costs two comparisons and leaves nothing in the heap of timers: the one timer
    that is armed finds on waking that it came too early, and arms itself again. That is what a
    heartbeat every few seconds needs.
    """

    __slots__ = ("_run", "_timer", "_timers", "due_ms")

    def __init__(self, timers: Timers, run: Callable[[], None]) -> None:
        self.due_ms: float | None = None
        self._timers = timers
        self._run = run
        self._timer: Timer | None = None

    def set(self, due_ms: float) -> None:
        """Be due at `due_ms`, whatever was set before."""
        self.due_ms = due_ms
        if self._timer is None or self._timer.deadline_ms > due_ms:
            self._arm(due_ms)

    def clear(self) -> None:
        """Be due never (until set again)."""
        self.due_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.at(due_ms, self._ring)

    def _ring(self) -> None:
        rang, self._timer = self._timer, None
        assert rang is not None
        assert self.due_ms is not None, "a cleared deadline has no timer"
        if self.due_ms > rang.deadline_ms:
            self._arm(self.due_ms)
        else:
            self.due_ms = None
            self._run()
