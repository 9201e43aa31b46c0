"""The circuit breaker: when it opens, and what closes it."""

from __future__ import annotations

import pytest

from kqueue.testing.manual_clock import ManualClock
from kqueue.tier.stores.circuit import CircuitBreaker, CircuitState


class Calls:
    """A circuit that opens after three failures, for ten seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.circuit = CircuitBreaker(self.clock, failures_max=3, open_ms=10_000)

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.circuit.begin()
            self.circuit.failed()


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_failures_in_a_row_open_it(calls: Calls) -> None:
    calls.fail(2)
    assert calls.circuit.state is CircuitState.CLOSED
    calls.fail()
    assert calls.circuit.state is CircuitState.OPEN
    assert not calls.circuit.begin()
    assert (calls.circuit.failures, calls.circuit.openings, calls.circuit.rest_ms()) == (3, 1, 10_000)


def test_success_between_failures_keeps_it_closed(calls: Calls) -> None:
    for _ in range(5):
        calls.fail(2)
        assert calls.circuit.begin()
        calls.circuit.succeeded()
    assert calls.circuit.state is CircuitState.CLOSED


def test_one_call_passes_after_the_time(calls: Calls) -> None:
    calls.fail(3)
    calls.clock.advance(9_999)
    assert not calls.circuit.begin()
    calls.clock.advance(1)
    assert calls.circuit.state is CircuitState.HALF_OPEN
    assert calls.circuit.rest_ms() == 0
    assert calls.circuit.begin()
    assert not calls.circuit.begin(), "a second one while the first is under way"
    calls.circuit.succeeded()
    assert calls.circuit.state is CircuitState.CLOSED
    assert calls.circuit.failures == 0
    assert calls.circuit.begin()
    assert calls.circuit.begin()


def test_probe_that_fails_opens_it_for_the_whole_time_again(calls: Calls) -> None:
    calls.fail(3)
    for opening in (2, 3, 4):
        calls.clock.advance(10_000)
        calls.fail()
        assert calls.circuit.state is CircuitState.OPEN
        assert calls.circuit.rest_ms() == 10_000
        assert calls.circuit.openings == opening


def test_probe_without_a_result_leaves_the_next_call_to_probe(calls: Calls) -> None:
    calls.fail(3)
    calls.clock.advance(10_000)
    assert calls.circuit.begin()
    calls.circuit.abandoned()
    assert calls.circuit.state is CircuitState.HALF_OPEN
    assert calls.circuit.begin()


def test_late_failures_of_calls_from_before_do_not_prolong_it(calls: Calls) -> None:
    for _ in range(5):
        assert calls.circuit.begin()
    for _ in range(3):
        calls.circuit.failed()
    calls.clock.advance(5_000)
    calls.circuit.failed()
    assert calls.circuit.rest_ms() == 5_000
    calls.circuit.succeeded()
    assert calls.circuit.state is CircuitState.CLOSED, "the store has answered"
