"""Histograms of times: plain counts by buckets, which know no exporter."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets, in seconds: from what an append takes to a long poll."""


class Histogram:
    """Seconds, counted by buckets. `counts`: one more than `BOUNDS_S`, the last for all above.

    Thread: one at a time.
    """

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one time."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    @property
    def count(self) -> int:
        """How many times were counted."""
        return sum(self.counts)
