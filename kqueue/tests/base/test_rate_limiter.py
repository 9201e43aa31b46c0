from __future__ import annotations

import pytest

from kqueue.base.rate_limiter import RateLimiter
from kqueue.testing.manual_clock import ManualClock


def test_rate_limiter_allows_a_burst_of_one_second() -> None:
    clock = ManualClock()
    rate = RateLimiter(10, clock)
    for _ in range(10):
        assert rate.wait_ms() == 0
        rate.count()
    assert rate.wait_ms() == pytest.approx(100)
    clock.advance(60)
    assert rate.wait_ms() == pytest.approx(40)
    clock.advance(40)
    assert rate.wait_ms() == 0
    clock.advance(3_600_000)
    for _ in range(10):
        assert rate.wait_ms() == 0
        rate.count()
    assert rate.wait_ms() > 0


def test_a_new_rate_counts_at_once() -> None:
    clock = ManualClock()
    rate = RateLimiter(10, clock)
    rate.configure(2)
    for _ in range(2):
        assert rate.wait_ms() == 0
        rate.count()
    assert rate.wait_ms() == pytest.approx(500)
    rate.configure(100)
    assert rate.wait_ms() == pytest.approx(10)
    clock.advance(1000)
    for _ in range(100):
        rate.count()
    assert rate.wait_ms() == pytest.approx(10)
