"""Failed authentications by address."""

from __future__ import annotations

from kqueue.security.sasl.failures import ADDRESSES_MAX, AuthenticationFailures, delay_ms_of
from kqueue.testing.manual_clock import ManualClock


def test_failures_count_by_address_and_are_forgotten():
    clock = ManualClock()
    failures = AuthenticationFailures(clock)
    assert [failures.count("10.0.0.1") for _ in range(3)] == [1, 2, 3]
    assert failures.count("10.0.0.2") == 1
    clock.advance(59_999)
    assert failures.count("10.0.0.1") == 4
    clock.advance(60_000)
    assert failures.count("10.0.0.1") == 1


def test_addresses_are_bounded():
    failures = AuthenticationFailures(ManualClock())
    for number in range(ADDRESSES_MAX + 1):
        failures.count(str(number))
    assert failures.count("0") == 1
    assert failures.count(str(ADDRESSES_MAX)) == 2


def test_repeated_failures_wait_longer_up_to_a_bound():
    assert [delay_ms_of(count, 100) for count in (1, 2, 50, 51, 10_000)] == [100, 200, 5000, 5000, 5000]
    assert delay_ms_of(3, 10_000) == 10_000
    assert delay_ms_of(1000, 0) == 0
