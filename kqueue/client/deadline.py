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
    def left_s(self) -> float:
        """Seconds that are left; 0.0 once it is over."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def left_ms(self) -> int:
        return int(self.left_s * 1000)

    @property
    def brokers_ms(self) -> int:
        """What to let a broker wait, so that there is still time for its answer."""
        return self.left_ms * 3 // 4

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.at_s

    def within(self, timeout_ms: float) -> Deadline:
        """The earlier one of this and `timeout_ms` from now."""
        other = Deadline(timeout_ms)
        return other if other.at_s < self.at_s else self
