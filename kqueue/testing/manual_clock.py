"""A clock that stands still until it is told to move."""

from __future__ import annotations


class ManualClock:
    """A `Clock` for simulation: both clocks move only by `advance`; the wall may also be set, as
    people do.

    `wall_ms`: milliseconds since 1970 UTC to start at. `monotonic_ms` starts at 0.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_ms = 0.0

    def wall_ms(self) -> int:
        return int(self._wall_ms)

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass on both clocks; not negative."""
        assert ms >= 0, "time does not go back; set_wall moves the wall clock"
        self._wall_ms += ms
        self._monotonic_ms += ms

    def move_to(self, monotonic_ms: float) -> None:
        """Let time pass until the steady clock shows `monotonic_ms`; not back."""
        self.advance(monotonic_ms - self._monotonic_ms)
        self._monotonic_ms = monotonic_ms  # exactly: sums of parts would drift

    def set_wall(self, wall_ms: int) -> None:
        """Set the wall clock, either way; the steady clock takes no notice."""
        self._wall_ms = float(wall_ms)
