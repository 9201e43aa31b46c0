"""Clocks. Code that needs the time is given a `Clock`, so that tests can set it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """The wall clock, which may be set, and a monotonic clock for timeouts."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC. May jump either way."""
        ...

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary start. Never decreases."""
        ...


class VirtualClock(Clock, Protocol):
    """A clock that a driver sets (see `virtual_time`)."""

    def move_to(self, monotonic_ms: float) -> None:
        """Advance both clocks until the monotonic one shows `monotonic_ms`, which is not in its
        past.
        """
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6


class OffsetClock:
    """The machine's clocks plus an offset, which only grows until `reset`.

    The clock runs, except within `frozen`, where only `move_to` changes it.

    Thread: `frozen` and `move_to` belong to one thread; any thread may read the clock.
    """

    def __init__(self) -> None:
        self._offset_ms = 0
        self._frozen_ms: float | None = None
        self._frozen_wall_ms = 0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._offset_ms if self._frozen_ms is None else self._frozen_wall_ms

    def monotonic_ms(self) -> float:
        frozen_ms = self._frozen_ms
        return time.monotonic_ns() / 1e6 + self._offset_ms if frozen_ms is None else frozen_ms

    def reset(self) -> None:
        """Return to the machine's time. Only while no deadline by this clock is pending."""
        self._offset_ms = 0

    def move_to(self, monotonic_ms: float) -> None:
        """Advance until the monotonic clock shows `monotonic_ms`; only within `frozen`."""
        assert self._frozen_ms is not None, "the clock is running; freeze it first"
        assert monotonic_ms >= self._frozen_ms, "time does not go back"
        self._frozen_wall_ms += int(monotonic_ms) - int(self._frozen_ms)
        self._frozen_ms = monotonic_ms

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the clock. It then resumes from where `move_to` left it, or from where it would be
        without the stop, whichever is later.
        """
        # The wall clock first: the offset that is computed below from the monotonic clock then
        # never sets the wall clock back.
        self._frozen_wall_ms = self.wall_ms()
        self._frozen_ms = self.monotonic_ms()
        try:
            yield
        finally:
            offset_ms = math.ceil(self._frozen_ms - time.monotonic_ns() / 1e6)
            self._offset_ms = max(self._offset_ms, offset_ms)
            self._frozen_ms = None
