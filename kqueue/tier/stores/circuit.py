"""A circuit breaker: after some failures in a row calls are refused for a while, instead of each
waiting for its own timeout.

    CLOSED     -- failures_max failures in a row -->        OPEN
    OPEN       -- open_ms have passed, and a call comes --> HALF_OPEN
    HALF_OPEN  -- the one call that passed succeeded -->    CLOSED
    HALF_OPEN  -- it failed -->                             OPEN
"""

from __future__ import annotations

import enum
import threading

from kqueue.base.clock import Clock


class CircuitState(enum.Enum):
    """OPEN refuses calls, HALF_OPEN lets one pass at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class CircuitBreaker:
    """Counts failures in a row. Each `begin` that returned True is followed by one of the others.

    Attributes:
        failures: in a row, by now.
        openings: how often it has opened.

    Args:
        failures_max: so many failures in a row open it, at least 1.
        open_ms: how long calls are refused, in milliseconds.
    Thread: any.
    """

    def __init__(self, clock: Clock, *, failures_max: int, open_ms: float) -> None:
        assert failures_max >= 1, "a circuit opens after a failure at the earliest"
        self._clock = clock
        self._failures_max = failures_max
        self._open_ms = open_ms
        self._lock = threading.Lock()
        self._retry_at_ms: float | None = None  # None: closed
        self._is_probing = False
        self.failures = 0
        self.openings = 0

    @property
    def state(self) -> CircuitState:
        """HALF_OPEN from when the next call would pass until it has ended."""
        with self._lock:
            if self._retry_at_ms is None:
                return CircuitState.CLOSED
            return CircuitState.HALF_OPEN if self._rest_ms() <= 0 or self._is_probing else CircuitState.OPEN

    def rest_ms(self) -> float:
        """Return the milliseconds for which calls are refused from now on; 0: the next one passes,
        unless another is being tried.
        """
        with self._lock:
            return 0.0 if self._retry_at_ms is None else max(self._rest_ms(), 0.0)

    def begin(self) -> bool:
        """Return whether a call may be made."""
        with self._lock:
            if self._retry_at_ms is None:
                return True
            if self._is_probing or self._rest_ms() > 0:
                return False
            self._is_probing = True
            return True

    def succeeded(self) -> None:
        """The call was answered: close the circuit."""
        with self._lock:
            self.failures = 0
            self._is_probing = False
            self._retry_at_ms = None

    def failed(self) -> None:
        """The call was not answered."""
        with self._lock:
            self.failures += 1
            if self._is_probing or (self._retry_at_ms is None and self.failures >= self._failures_max):
                self.openings += 1
                self._is_probing = False
                self._retry_at_ms = self._clock.monotonic_ms() + self._open_ms

    def abandoned(self) -> None:
        """The call ended for another reason, and says nothing about the store."""
        with self._lock:
            self._is_probing = False

    def _rest_ms(self) -> float:
        assert self._retry_at_ms is not None, "closed"
        return self._retry_at_ms - self._clock.monotonic_ms()
