"""Counts steps of Python code: what tests of costs compare in place of times."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python `work` runs in this thread, those of loops each time.

    Work in C counts nothing, so it is to be counted by what it is given.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., object]:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
