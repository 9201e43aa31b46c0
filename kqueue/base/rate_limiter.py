"""A token bucket: events per second, with a bounded burst."""

from __future__ import annotations

import math

from kqueue.base.clock import Clock


class RateLimiter:
    """Allows `per_second` events a second on average, and at most `burst` at once.

    `burst` None: one second's worth, at least one.
    """

    def __init__(self, per_second: float, clock: Clock, burst: float | None = None) -> None:
        self._clock = clock
        self._filled_ms = clock.monotonic_ms()
        self._set(per_second, burst)
        self._tokens = self._burst

    def wait_ms(self) -> float:
        """Return the milliseconds until one more event is allowed; 0: it is allowed now; infinity:
        never at this rate.
        """
        self._fill()
        if self._tokens >= 1:
            return 0.0
        return (1 - self._tokens) / self._per_ms if self._per_ms else math.inf

    def debt_ms(self) -> float:
        """Return the milliseconds until no more is counted than is allowed; 0: so it is now."""
        self._fill()
        if self._tokens >= 0:
            return 0.0
        return -self._tokens / self._per_ms if self._per_ms else math.inf

    def configure(self, per_second: float, burst: float | None = None) -> None:
        """Change the limits. What was allowed and not used stays allowed, within the new burst."""
        self._fill()
        self._set(per_second, burst)
        self._tokens = min(self._tokens, self._burst)

    def _set(self, per_second: float, burst: float | None) -> None:
        self._per_ms = per_second / 1000
        self._burst = max(1.0, per_second if burst is None else burst)

    def _fill(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._tokens = min(self._burst, self._tokens + (now_ms - self._filled_ms) * self._per_ms)
        self._filled_ms = now_ms

    def count(self, number: int = 1) -> None:
        """Count events. More than are allowed are made up for by a longer wait."""
        self._tokens -= number
