from __future__ import annotations

import pytest

from kqueue.network.rate_limiter import RateLimiter
from kqueue.testing.manual_clock import ManualClock


def test_a_rate_allows_a_second_at_once_and_then_its_pace() -> None:
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
