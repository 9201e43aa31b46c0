from __future__ import annotations

import pytest

from kqueue.web import failure_limit
from kqueue.web.failure_limit import FAILURES_MAX, FAILURES_WINDOW_S, FailureLimit


def test_an_address_may_try_again_after_a_minute() -> None:
    now_s = 0.0
    limit = FailureLimit(lambda: now_s)
    for _ in range(FAILURES_MAX):
        limit.count("192.0.2.1")
    assert limit.is_reached("192.0.2.1")
    assert not limit.is_reached("192.0.2.2")
    now_s = FAILURES_WINDOW_S + 1
    assert not limit.is_reached("192.0.2.1")


def test_the_oldest_of_many_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_limit, "ADDRESSES_MAX", 2)
    limit = FailureLimit(lambda: 0.0)
    for number in range(3):
        for _ in range(FAILURES_MAX):
            limit.count(f"192.0.2.{number}")
    assert [limit.is_reached(f"192.0.2.{number}") for number in range(3)] == [False, True, True]
