"""S5.2: log.cleaner.io.max.bytes.per.second."""

from __future__ import annotations

import pytest

from kqueue.log.compaction.throttle import Throttle


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.slept += seconds

    def monotonic(self) -> float:
        return self.now


def test_spending_waits_for_the_rate() -> None:
    time = Time()
    throttle = Throttle(1000, time.sleep, time.monotonic)
    for _ in range(50):
        throttle.spend(100)
    assert time.now - 100 == pytest.approx(5, abs=0.3)


def test_a_slow_caller_does_not_sleep() -> None:
    time = Time()
    throttle = Throttle(1000, time.sleep, time.monotonic)
    for _ in range(50):
        time.now += 0.11
        throttle.spend(100)
    assert time.slept == 0


def test_credit_of_a_pause_is_bounded() -> None:
    time = Time()
    throttle = Throttle(1000, time.sleep, time.monotonic)
    time.now += 60
    throttle.spend(300)  # a window's worth, that had a minute
    for _ in range(10):
        throttle.spend(1000)
    assert time.slept == pytest.approx(10, abs=0.3)


def test_without_a_limit_it_never_sleeps() -> None:
    time = Time()
    throttle = Throttle(float("inf"), time.sleep, time.monotonic)
    throttle.spend(1 << 60)
    assert time.slept == 0
