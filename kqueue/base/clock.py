"""Time is given, never reached for: whoever needs it holds a `Clock`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall's, which people set, and a steady one for timeouts."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; may jump either way."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds since some start; never goes back."""
        ...


class VirtualClock(Clock, Protocol):
    """A clock that somebody moves (see `stepping`)."""

    def move_to(self, monotonic_ms: float) -> None:
        """Let time pass on both clocks until the steady one shows `monotonic_ms`, which is not
        before what it shows.
        """
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6


class OffsetClock:
    """The machine's clocks, and ahead of them by as much as it was pushed; the distance only grows,
    until `reset`.

    It runs on, except within `held`: there it moves by `move_to` alone. Both belong to one thread;
    any may read it.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._held_ms: float | None = None
        self._held_wall_ms = 0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms if self._held_ms is None else self._held_wall_ms

    def monotonic_ms(self) -> float:
        held_ms = self._held_ms
        return time.monotonic_ns() / 1e6 + self._ahead_ms if held_ms is None else held_ms

    def reset(self) -> None:
        """Go back to the machine's time. Only while nothing has a deadline by this clock."""
        self._ahead_ms = 0

    def move_to(self, monotonic_ms: float) -> None:
        """Let time pass until the steady clock shows `monotonic_ms`; only within `held`, and never
        back.
        """
        assert self._held_ms is not None, "it runs by itself; hold it first"
        assert monotonic_ms >= self._held_ms, "time does not go back"
        self._held_wall_ms += int(monotonic_ms) - int(self._held_ms)
        self._held_ms = monotonic_ms

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make it stand still but for `move_to`. Afterwards it runs on from where it was moved to,
        or from where it would be by itself.
        """
        self._held_wall_ms = (
            self.wall_ms()
        )  # before the steady clock: so what is added below never falls short on the wall
        self._held_ms = self.monotonic_ms()
        try:
            yield
        finally:
            ahead_ms = math.ceil(self._held_ms - time.monotonic_ns() / 1e6)
            self._ahead_ms = max(self._ahead_ms, ahead_ms)
            self._held_ms = None
