"""Limits a job to a number of bytes per second."""

from __future__ import annotations

from collections.abc import Callable

WINDOW_SECONDS = 0.3


class Throttle:
    """Sleeps when more bytes were spent than the elapsed time allows.

    It compares once per `WINDOW_SECONDS`' worth of bytes.

    Args: bytes_per_second: above 0; infinity: never sleeps. sleep, monotonic: in seconds.
    Source: Kafka Throttler.
    """

    __slots__ = ("_bytes", "_monotonic", "_rate", "_since", "_sleep")

    def __init__(self, bytes_per_second: float, sleep: Callable[[float], None], monotonic: Callable[[], float]) -> None:
        self._rate = bytes_per_second
        self._sleep = sleep
        self._monotonic = monotonic
        self._bytes = 0
        self._since = monotonic()

    def spend(self, size: int) -> None:
        """Count `size` bytes that were read or written; sleeps if that is too fast."""
        self._bytes += size
        if self._bytes < self._rate * WINDOW_SECONDS:
            return
        ahead = self._bytes / self._rate - (self._monotonic() - self._since)
        if ahead > 0:
            self._sleep(ahead)
        self._bytes = 0
        self._since = self._monotonic()
