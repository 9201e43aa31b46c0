from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers
from kqueue.broker.expiry import GROUP_MS, TIMERLESS_MS
from kqueue.broker.purgatory import DelayedOperation, Purgatory, WatchedOperation
from kqueue.testing.manual_clock import ManualClock


class ExpiryFixture:
    """A purgatory whose operations complete by their deadlines only.

    Attributes:
        expired_ms: when each of them expired, by its name.
        timers_run: how many timers have run.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers()
        self.purgatory = Purgatory(self.timers, self.clock)
        self.expired_ms: dict[str, float] = {}
        self.timers_run = 0

    def add(self, name: str, deadline_ms: float | None) -> WatchedOperation:
        def expire(_: str) -> None:
            self.expired_ms[name] = self.clock.monotonic_ms()

        operation = DelayedOperation[str]((name,), deadline_ms, lambda expired: name if expired else None)
        return self.purgatory.add(operation, expire)

    def run_until(self, end_ms: float) -> None:
        """Run timers at their deadlines, and after each what is ready."""
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(deadline_ms - self.clock.monotonic_ms())
            self.timers_run += self.timers.run_due(deadline_ms)
            self.purgatory.run_ready()
        self.clock.advance(end_ms - self.clock.monotonic_ms())


@pytest.fixture
def world() -> ExpiryFixture:
    return ExpiryFixture()


def test_first_of_a_group_expires_in_time_and_the_others_with_the_last(world: ExpiryFixture) -> None:
    for name, deadline_ms in (("first", 501), ("second", 503), ("third", 508), ("of the next group", 511)):
        world.add(name, deadline_ms)
    world.run_until(600)
    assert world.expired_ms == {"first": 501, "second": 508, "third": 508, "of the next group": 511}


def test_operation_that_comes_later_and_expires_first_expires_in_time(world: ExpiryFixture) -> None:
    world.add("second", 57)
    world.add("first", 52)
    world.run_until(100)
    assert world.expired_ms == {"first": 52, "second": 57}


def test_many_operations_take_two_timers_for_each_group(world: ExpiryFixture) -> None:
    for number in range(1000):
        world.add(str(number), 500 + number / 10)
    world.run_until(700)
    assert len(world.expired_ms) == 1000
    assert world.timers_run == 1 + 2 * 100 / GROUP_MS, "the first ends the time without timers"


@pytest.mark.parametrize("deadline_ms", [TIMERLESS_MS / 2, 10 * TIMERLESS_MS])
def test_group_that_has_become_empty_leaves_no_timer(world: ExpiryFixture, deadline_ms: float) -> None:
    operations = [world.add(name, deadline_ms) for name in ("a", "b")]
    world.run_until(TIMERLESS_MS if deadline_ms > TIMERLESS_MS else 0)
    assert world.timers.next_deadline_ms() == deadline_ms
    for operation in operations:
        operation.cancel()
    world.run_until(TIMERLESS_MS)
    assert world.timers.next_deadline_ms() is None
    assert not world.expired_ms


def test_expired_operation_that_was_cancelled_before_its_turn_is_not_answered(world: ExpiryFixture) -> None:
    world.add("first", 50)
    second = world.add("second", 50)
    world.timers.run_due(50)
    second.cancel()
    world.purgatory.run_ready()
    assert list(world.expired_ms) == ["first"]


def test_failure_of_the_first_does_not_reach_the_others_of_its_group(world: ExpiryFixture) -> None:
    def fail(expired: bool) -> str:
        raise ZeroDivisionError

    world.purgatory.add(DelayedOperation(("failing",), 50, fail), lambda response: None)
    world.add("other", 50)
    with pytest.raises(ZeroDivisionError):
        world.timers.run_due(50)
    world.purgatory.run_ready()
    assert list(world.expired_ms) == ["other"]


def test_operation_that_is_woken_and_expires_in_one_turn_is_retried_once(world: ExpiryFixture) -> None:
    retries: list[bool] = []

    def retry(expired: bool) -> str | None:
        retries.append(expired)
        return "late" if expired else None

    world.add("first", 50)
    world.purgatory.add(DelayedOperation(("key",), 50, retry), lambda response: None)
    world.purgatory.wake("key")
    world.timers.run_due(50)
    world.purgatory.run_ready()
    assert retries == [True]


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_nothing_expires_early_or_late_by_a_group(deadlines_ms: list[float]) -> None:
    world = ExpiryFixture()
    for number, deadline_ms in enumerate(deadlines_ms):
        world.add(str(number), deadline_ms)
    world.run_until(1000 + GROUP_MS)
    assert len(world.expired_ms) == len(deadlines_ms)
    for number, deadline_ms in enumerate(deadlines_ms):
        late_ms = world.expired_ms[str(number)] - deadline_ms
        assert -1e-6 <= late_ms < GROUP_MS
