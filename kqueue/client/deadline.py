"""Deadlines: one point in time that bounds a call and all its steps."""

from __future__ import annotations

from kqueue.base.clock import monotonic_s


class Deadline:
    """The time `timeout_ms` from now, on the monotonic clock."""

    __slots__ = ("at_s", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.at_s = monotonic_s() + timeout_ms / 1000

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; 0.0 after it."""
        return max(0.0, self.at_s - monotonic_s())

    @property
    def remaining_ms(self) -> int:
        """Milliseconds until the deadline; 0 after it."""
        return int(self.remaining_s * 1000)

    @property
    def broker_timeout_ms(self) -> int:
        """The timeout in ms to send to a broker.

        It is 3/4 of the remaining time, so that the response arrives in time.
        """
        return self.remaining_ms * 3 // 4

    @property
    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        return monotonic_s() >= self.at_s

    def within(self, timeout_ms: float) -> Deadline:
        """Return the earlier of this deadline and `timeout_ms` from now."""
        other = Deadline(timeout_ms)
        return other if other.at_s < self.at_s else self
