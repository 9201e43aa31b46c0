"""Times of what takes longer while the machine is busy."""

from __future__ import annotations

from collections.abc import Callable

RUNS_MAX = 20


def quickest_s(measure: Callable[[], float], enough_s: float) -> float:
    """Return the least of the seconds that runs of `measure` return.

    It is run until one takes less than `enough_s`, up to `RUNS_MAX` times: what is too slow is so
    each time, and a busy machine is not.
    """
    least_s = measure()
    for _ in range(RUNS_MAX - 1):
        if least_s < enough_s:
            break
        least_s = min(least_s, measure())
    return least_s
