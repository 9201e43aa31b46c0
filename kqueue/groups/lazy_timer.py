"""A timer for a deadline that moves far more often than it passes."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.timers import Timer, Timers


class LazyTimer:
    """Calls `run` once the monotonic clock reaches the time set last.

    A later deadline costs two comparisons and no entry in the heap of timers: the armed timer fires
    too early and is armed again. Suits sessions, which each heartbeat extends.
    """

    __slots__ = ("_run", "_timer", "_timers", "due_ms")

    def __init__(self, timers: Timers, run: Callable[[], None]) -> None:
        self.due_ms: float | None = None
        self._timers = timers
        self._run = run
        self._timer: Timer | None = None

    def set(self, due_ms: float) -> None:
        """Replace the deadline by `due_ms`."""
        self.due_ms = due_ms
        if self._timer is None or self._timer.deadline_ms > due_ms:
            self._arm(due_ms)

    def clear(self) -> None:
        """Remove the deadline."""
        self.due_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.at(due_ms, self._fire)

    def _fire(self) -> None:
        fired, self._timer = self._timer, None
        assert fired is not None
        assert self.due_ms is not None, "a cleared timer does not fire"
        if self.due_ms > fired.deadline_ms:
            self._arm(self.due_ms)
        else:
            self.due_ms = None
            self._run()
