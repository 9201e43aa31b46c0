"""A clock that moves only when a test advances it."""

from __future__ import annotations


class ManualClock:
    """A `Clock` for simulation: time moves only by `advance`; the wall clock can also be set.

    `monotonic_ms` starts at 0.

    Args:
        wall_ms: start of the wall clock, in milliseconds since 1970 UTC.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_ms = 0.0

    def wall_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970 UTC."""
        return int(self._wall_ms)

    def monotonic_ms(self) -> float:
        """Return the monotonic clock in milliseconds."""
        return self._monotonic_ms

    def advance(self, ms: float) -> None:
        """Advance both clocks by `ms` milliseconds, at least 0."""
        assert ms >= 0, "advance cannot go back: use set_wall for the wall clock"
        self._wall_ms += ms
        self._monotonic_ms += ms

    def move_to(self, monotonic_ms: float) -> None:
        """Advance both clocks until the monotonic clock shows `monotonic_ms`; it cannot go back."""
        self.advance(monotonic_ms - self._monotonic_ms)
        self._monotonic_ms = monotonic_ms  # exact: repeated sums would drift

    def set_wall(self, wall_ms: int) -> None:
        """Set the wall clock forward or back; the monotonic clock does not change."""
        self._wall_ms = float(wall_ms)
