from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.quota_rates import SampledRate

WINDOW_MS = 1000


class NaiveRate:
    """Every event by itself: windows are made anew from all of them at each question."""

    def __init__(self, count: int) -> None:
        self.number = count
        self.events: list[tuple[float, float]] = []

    def windows(self, now_ms: float) -> list[tuple[float, float, float]]:
        """Start, last event and sum of each window that still counts."""
        windows: list[tuple[float, float, float]] = []
        for at_ms, value in self.events:
            if windows and at_ms - windows[-1][0] < WINDOW_MS:
                start_ms, _, total = windows[-1]
                windows[-1] = (start_ms, at_ms, total + value)
            else:
                windows.append((at_ms, at_ms, value))
        return [one for one in windows if one[1] > now_ms - self.number * WINDOW_MS]

    def per_second(self, now_ms: float) -> float:
        windows = self.windows(now_ms)
        elapsed_ms = now_ms - windows[0][0] if windows else 0.0
        full = int(elapsed_ms // WINDOW_MS)
        length_ms = elapsed_ms + max(0, self.number - 1 - full) * WINDOW_MS
        return sum(one[2] for one in windows) * 1000 / (length_ms or 1.0)


@given(
    st.integers(2, 12),
    st.lists(st.tuples(st.integers(0, 3 * WINDOW_MS), st.integers(1, 10_000)), max_size=60),
    st.integers(0, 15 * WINDOW_MS),
)
def test_rate_is_that_of_a_naive_model(count: int, steps: list[tuple[int, int]], after_ms: int) -> None:
    rate, naive, now_ms = SampledRate(count, WINDOW_MS), NaiveRate(count), 1_000_000.0
    for pause_ms, value in steps:
        now_ms += pause_ms
        rate.count(value, now_ms)
        naive.events.append((now_ms, value))
        assert rate.per_second(now_ms) == pytest.approx(naive.per_second(now_ms))
    assert rate.per_second(now_ms + after_ms) == pytest.approx(naive.per_second(now_ms + after_ms))
    assert rate.is_zero(now_ms + after_ms) == (not naive.windows(now_ms + after_ms))


@given(st.integers(2, 12), st.integers(1, 1_000_000), st.lists(st.floats(0.001, 0.9), min_size=1, max_size=200))
def test_a_client_that_waits_as_long_as_it_is_told_is_held_to_its_bound(
    count: int, bound: int, seconds_of: list[float]
) -> None:
    """Each request is less than a second's worth. What is more than all windows are is forgotten
    before the client has waited for it, in Kafka too.
    """
    rate, now_ms, sent = SampledRate(count, WINDOW_MS), 0.0, 0.0
    for seconds in seconds_of:
        rate.count(seconds * bound, now_ms)
        sent += seconds * bound
        now_ms += rate.excess_ms(bound, now_ms) + 1
    assert sent <= bound * (now_ms / 1000 * 1.1 + count + 1)


def test_throttle_time_is_kafkas() -> None:
    rate = SampledRate(11, WINDOW_MS)
    rate.count(5_000, 0.0)  # over ten seconds: 500 per second
    assert rate.per_second(0.0) == 500
    assert rate.excess_ms(500, 0.0) == 0
    assert rate.excess_ms(400, 0.0) == 2_500  # (500 - 400) / 400 of ten seconds
    assert rate.excess_ms(400, 1_000.0) == 2_500  # the first full window is one of the ten
    assert rate.per_second(10_500.0) == pytest.approx(5_000 / 10.5)
    assert rate.per_second(11_000.0) == 0


def test_value_taken_back_is_not_counted() -> None:
    rate = SampledRate(11, WINDOW_MS)
    rate.count(5_000, 0.0)
    rate.count(70_000, 100.0)
    rate.count(-70_000, 100.0)
    assert rate.per_second(100.0) == pytest.approx(5_000 / 10.1, rel=0.02)


def test_a_single_window_has_no_length_at_its_begin() -> None:
    rate = SampledRate(1, WINDOW_MS)
    assert rate.excess_ms(10, 0.0) == 0
    rate.count(1, 0.0)
    assert rate.excess_ms(10, 0.0) > 0
    assert rate.excess_ms(10, 500.0) == 0


def test_memory_of_a_rate_is_bounded() -> None:
    rate = SampledRate(11, WINDOW_MS)
    for second in range(1000):
        rate.count(1, second * 1000.0)
    assert len(rate._windows) <= 12
