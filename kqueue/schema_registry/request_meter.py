"""Counts requests, for metrics."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple


class RequestCounts(NamedTuple):
    """The requests of one endpoint. `counts`: by status. `seconds`: of all together."""

    method: str
    path: str
    counts: dict[int, int]
    seconds: float


class RequestMeter:
    """Counts answers by endpoint and status. Paths are those of the API's table: there are few.

    Thread: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], Counter[int]] = {}
        self._seconds: dict[tuple[str, str], float] = {}

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """Note one answer."""
        with self._lock:
            self._counts.setdefault((method, path), Counter())[status] += 1
            self._seconds[method, path] = self._seconds.get((method, path), 0.0) + seconds

    def read(self) -> list[RequestCounts]:
        """Return the counts of now."""
        with self._lock:
            return [
                RequestCounts(method, path, dict(counts), self._seconds[method, path])
                for (method, path), counts in self._counts.items()
            ]
