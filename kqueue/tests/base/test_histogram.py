from __future__ import annotations

from kqueue.base.histogram import BOUNDS_S, Histogram


def test_a_time_is_counted_in_the_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[1], BOUNDS_S[-1] + 1):
        histogram.observe(seconds)
    assert histogram.counts[0] == 2
    assert histogram.counts[1] == 1
    assert histogram.counts[-1] == 1
    assert histogram.count == 4
    assert histogram.sum_s == BOUNDS_S[0] + BOUNDS_S[1] + BOUNDS_S[-1] + 1
