"""Deadlines: a point of time that everything below a call is measured by."""

from __future__ import annotations

import time


class Deadline:
    """`timeout_ms` from now, on the monotonic clock."""

    __slots__ = ("at_s", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.at_s = time.monotonic() + timeout_ms / 1000

    @property
    def remaining_s(self) -> float:
        """Seconds that are left; 0.0 once it is over."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def remaining_ms(self) -> int:
        return int(self.remaining_s * 1000)

    @property
    def broker_timeout_ms(self) -> int:
        """What to let a broker wait, so that there is still time for its answer."""
        return self.remaining_ms * 3 // 4

    @property
    def is_expired(self) -> bool:
        return time.monotonic() >= self.at_s

    def within(self, timeout_ms: float) -> Deadline:
        """The earlier one of this and `timeout_ms` from now."""
        other = Deadline(timeout_ms)
        return other if other.at_s < self.at_s else self
