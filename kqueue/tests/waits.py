"""Waits of the tests for what others do meanwhile: threads, processes, brokers.

A limit here only ends a hang. No default test compares times of the machine's clock
(`test_clock_readings.py`): a busy machine makes each of them as long as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kqueue.base.clock import monotonic_s, sleep

T = TypeVar("T")
LIMIT_S = 60.0
PAUSE_S = 0.005


class HangLimit:
    """The limit of a loop that waits: ``while not ...: limit.check()``."""

    def __init__(self, what: object = "", limit_s: float = LIMIT_S) -> None:
        self._what = what
        self._limit_s = limit_s
        self._end_s = monotonic_s() + limit_s

    def check(self) -> None:
        """Pause shortly. Raises: AssertionError: after the limit, with what the loop waits for."""
        assert monotonic_s() < self._end_s, f"it did not come within {self._limit_s:g} s: {self._what}"
        sleep(PAUSE_S)


def eventually(condition: Callable[[], T], what: object = "", limit_s: float = LIMIT_S) -> T:
    """Return the first result of `condition` that is true.

    Raises: AssertionError: if there is none within the limit.
    """
    limit = HangLimit(what or condition, limit_s)
    while not (result := condition()):
        limit.check()
    return result
