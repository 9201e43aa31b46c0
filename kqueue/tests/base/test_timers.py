from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import CANCELLED_SPARE, Timers
from kqueue.base.virtual_time import advance_in_steps
from kqueue.testing.manual_clock import ManualClock


def test_due_timers_run_in_order_of_deadline_then_creation() -> None:
    timers, ran = Timers(), list[str]()
    timers.at(20, lambda: ran.append("late"))
    timers.at(10, lambda: ran.append("first"))
    timers.at(10, lambda: ran.append("second"))
    assert timers.run_due(10) == 2
    assert ran == ["first", "second"]
    assert timers.next_deadline_ms() == 20


def test_a_cancelled_timer_never_runs() -> None:
    timers, ran = Timers(), list[str]()
    timer = timers.at(10, lambda: ran.append("x"))
    timer.cancel()
    assert not timer.pending
    assert timers.next_deadline_ms() is None
    assert timers.run_due(100) == 0
    assert ran == []


def test_a_timer_may_add_another_that_is_due_at_once() -> None:
    timers, ran = Timers(), list[int]()
    timers.at(1, lambda: timers.at(2, lambda: ran.append(2)) and None)
    timers.run_due(5)
    timers.run_due(5)
    assert ran == [2]


def test_the_owner_hears_of_an_earlier_deadline_only() -> None:
    timers, calls = Timers(), list[float | None]()
    timers.on_earlier = lambda: calls.append(timers.next_deadline_ms())
    timers.at(10, lambda: None)
    timers.at(20, lambda: None)
    timers.at(5, lambda: None)
    assert calls == [10, 5]


def test_a_timer_that_fails_is_gone_and_the_rest_stay() -> None:
    timers, ran = Timers(), list[str]()

    def fail() -> None:
        raise RuntimeError("boom")

    timers.at(1, fail)
    timers.at(2, lambda: ran.append("after"))
    with contextlib.suppress(RuntimeError):
        timers.run_due(5)
    timers.run_due(5)
    assert ran == ["after"]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=60), st.integers(0, 60))
def test_exactly_the_pending_ones_that_are_due_run(plan: list[tuple[int, bool]], now: int) -> None:
    timers, ran = Timers(), list[int]()
    for index, (deadline, cancel) in enumerate(plan):
        timer = timers.at(deadline, lambda index=index: ran.append(index))
        if cancel:
            timer.cancel()
    timers.run_due(now)
    expected = [(deadline, index) for index, (deadline, cancel) in enumerate(plan) if deadline <= now and not cancel]
    assert ran == [index for _, index in sorted(expected)]


def run_until(clock: ManualClock, timers: Timers, end_ms: float) -> None:
    for _ in advance_in_steps(timers, clock, end_ms - clock.monotonic_ms()):
        pass


def test_a_series_runs_at_its_interval_until_it_is_cancelled() -> None:
    clock = ManualClock()
    timers, ran = Timers(clock), list[float]()
    series = timers.every(10, lambda: ran.append(clock.monotonic_ms()))
    early = timers.every(10, lambda: ran.append(-clock.monotonic_ms()), first_after_ms=3)
    run_until(clock, timers, 25)
    assert ran == [-3, 10, -13, 20, -23]
    early.cancel()
    early.cancel()
    assert (series.pending, early.pending) == (True, False)
    run_until(clock, timers, 35)
    assert ran[5:] == [30]
    series.cancel()
    assert timers.next_deadline_ms() is None


def test_a_series_counts_from_when_it_ran_not_from_when_it_should_have() -> None:
    clock = ManualClock()
    timers, ran = Timers(clock), list[float]()
    timers.every(10, lambda: ran.append(clock.monotonic_ms()))
    clock.advance(1000)
    timers.run_due(clock.monotonic_ms())
    assert ran == [1000]
    assert timers.next_deadline_ms() == 1010


def test_an_exception_in_one_run_does_not_end_the_series() -> None:
    clock = ManualClock()
    timers, ran = Timers(clock), list[float]()

    def fail() -> None:
        ran.append(clock.monotonic_ms())
        raise ZeroDivisionError

    timers.every(10, fail)
    for _ in range(3):
        clock.advance(10)
        with contextlib.suppress(ZeroDivisionError):
            timers.run_due(clock.monotonic_ms())
    assert ran == [10, 20, 30]


def test_a_series_may_end_itself() -> None:
    clock = ManualClock()
    timers, ran = Timers(clock), list[float]()

    def once() -> None:
        ran.append(clock.monotonic_ms())
        series.cancel()

    series = timers.every(10, once)
    run_until(clock, timers, 100)
    assert ran == [10]


def test_on_the_way_to_a_target_the_calls_of_a_series_are_apart_by_a_part_of_what_is_left() -> None:
    clock = ManualClock()
    timers, ran = Timers(clock), dict[int, list[float]]()
    for interval_ms in (10, 300, 1000):
        ran[interval_ms] = []
        timers.every(interval_ms, lambda interval_ms=interval_ms: ran[interval_ms].append(clock.monotonic_ms()))
    timers.coalesce_until(810, 2)
    run_until(clock, timers, 800)
    assert ran == {10: [10, 410, 610, 710, 760, 785, 797.5], 300: [300, 600], 1000: []}
    timers.coalesce_until(810, 2)
    run_until(clock, timers, 1000)
    assert ran[10][7:] == [807.5, *(817.5 + 10 * number for number in range(19))]


def test_intervals_need_a_clock() -> None:
    with pytest.raises(AssertionError, match="need a clock"):
        Timers().every(10, lambda: None)
    with pytest.raises(AssertionError, match="interval of 0"):
        Timers(ManualClock()).every(0, lambda: None)


def test_cancelled_timers_take_no_memory_until_their_deadline() -> None:
    timers, ran = Timers(), list[str]()
    timers.at(5, lambda: ran.append("first"))
    for number in range(10_000):
        timers.at(30_000 + number, lambda: ran.append("cancelled")).cancel()
        assert len(timers._heap) <= 2 * CANCELLED_SPARE + 2
    timers.at(40_000, lambda: ran.append("last"))
    assert timers.run_due(50_000) == 2
    assert ran == ["first", "last"]


def test_timers_that_are_cancelled_among_pending_ones_leave_their_order() -> None:
    timers, ran = Timers(), list[int]()
    several = [timers.at(deadline, lambda deadline=deadline: ran.append(deadline)) for deadline in range(999, -1, -1)]
    for timer in several:
        if timer.deadline_ms % 10:
            timer.cancel()
            timer.cancel()
    assert timers.next_deadline_ms() == 0
    timers.run_due(1000)
    assert ran == list(range(0, 1000, 10))
    assert timers.next_deadline_ms() is None
    several[-1].cancel()
    assert timers._cancelled == 0
