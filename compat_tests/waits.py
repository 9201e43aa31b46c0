"""Waits of these tests and of `cluster_tests`, for what brokers, clients and programs do meanwhile.

Each has an end: a limit, after which it says what was awaited and what was seen. It needs nothing
of kqueue, which the client suite has installed, without its own tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import IO, TypeVar

T = TypeVar("T")
LIMIT_S = 60.0
LOOK_PAUSE_S = 0.02


class HangLimit:
    """The limit of a loop that waits: ``while not ...: limit.check()``."""

    def __init__(self, what: object = "", limit_s: float = LIMIT_S) -> None:
        self._what = what
        self._limit_s = limit_s
        self._end_s = time.monotonic() + limit_s

    def check(self, *seen: object, pause_s: float = 0.005) -> None:
        """Pause. `seen`: what the loop looks at, as it is now.

        Raises: AssertionError: after the limit, with what the loop waits for, and `seen`.
        """
        if time.monotonic() >= self._end_s:
            shown = f"; seen: {', '.join(map(str, seen))}" if seen else ""
            raise AssertionError(f"it did not come within {self._limit_s:g} s: {self._what}{shown}")
        time.sleep(pause_s)


def look_until(look: Callable[[], T], holds: Callable[[T], object], what: object, limit_s: float = LIMIT_S) -> T:
    """Return the first result of `look` that `holds` is true for.

    Raises: AssertionError: if there is none within the limit, with the last result.
    """
    limit = HangLimit(what, limit_s)
    while not holds(result := look()):
        limit.check(result, pause_s=LOOK_PAUSE_S)
    return result


def eventually(condition: Callable[[], T], what: object = "", limit_s: float = LIMIT_S) -> T:
    """Return the first result of `condition` that is true.

    Raises: AssertionError: if there is none within the limit, with the last result.
    """
    return look_until(condition, bool, what or condition, limit_s)


def eventually_equal(look: Callable[[], T], expected: T, what: object = "", limit_s: float = LIMIT_S) -> None:
    """Return once `look` returns what is expected.

    Raises: AssertionError: if it does not within the limit, with the last result.
    """
    look_until(look, lambda result: result == expected, f"{what or look} = {expected}", limit_s)


def read_line(stream: IO[str], what: object, limit_s: float = LIMIT_S) -> str:
    """Return the next line of a process that answers line by line; empty: it has ended.

    Raises: AssertionError: if there is none within the limit.
    """
    assert wait([stream], limit_s), f"it did not come within {limit_s:g} s: {what}"
    return stream.readline()
