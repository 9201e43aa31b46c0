"""Bounds the failed logins of an address."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from kqueue.base.clock import monotonic_s

FAILURES_MAX, FAILURES_WINDOW_S = 10, 60.0
ADDRESSES_MAX = 10_000


class FailureLimit:
    """Counts failed logins by address: after `FAILURES_MAX` within a minute others are refused.

    Thread: any.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def is_reached(self, address: str) -> bool:
        """Return whether an address has to wait."""
        with self._lock:
            return len(self._recent(address)) >= FAILURES_MAX

    def count(self, address: str) -> None:
        """Note a failed login."""
        with self._lock:
            self._failures[address] = [*self._recent(address), self._now_s()]
            self._failures.move_to_end(address)
            while len(self._failures) > ADDRESSES_MAX:
                self._failures.popitem(last=False)

    def _recent(self, address: str) -> list[float]:
        since_s = self._now_s() - FAILURES_WINDOW_S
        return [failed_s for failed_s in self._failures.get(address, ()) if failed_s > since_s]
