from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers


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
