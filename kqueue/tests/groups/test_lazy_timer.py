from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers
from kqueue.groups.lazy_timer import LazyTimer


@pytest.fixture
def timers() -> Timers:
    return Timers()


def rings(timers: Timers) -> tuple[LazyTimer, list[float]]:
    rung: list[float] = []
    deadline = LazyTimer(timers, lambda: rung.append(-1))
    return deadline, rung


def test_rings_once_at_its_time(timers: Timers) -> None:
    deadline, rung = rings(timers)
    deadline.set(10)
    timers.run_due(9.9)
    assert rung == []
    timers.run_due(10)
    timers.run_due(100)
    assert len(rung) == 1
    assert deadline.due_ms is None


def test_moved_back_a_thousand_times_it_keeps_one_timer(timers: Timers) -> None:
    deadline, rung = rings(timers)
    for now in range(1000):
        deadline.set(now + 10)
    assert len(timers._heap) == 1
    timers.run_due(10)
    assert rung == []
    timers.run_due(1009)
    assert len(rung) == 1


def test_moved_forward_it_rings_earlier(timers: Timers) -> None:
    deadline, rung = rings(timers)
    deadline.set(100)
    deadline.set(5)
    timers.run_due(5)
    assert len(rung) == 1
    timers.run_due(100)
    assert len(rung) == 1


def test_cleared_it_never_rings(timers: Timers) -> None:
    deadline, rung = rings(timers)
    deadline.clear()
    deadline.set(5)
    deadline.clear()
    timers.run_due(5)
    assert rung == []
    assert timers.next_deadline_ms() is None


def test_may_be_set_again_while_it_rings(timers: Timers) -> None:
    rung = []

    def again() -> None:
        rung.append(1)
        if len(rung) < 3:
            deadline.set(len(rung) + 5)

    deadline = LazyTimer(timers, again)
    deadline.set(5)
    for now in range(20):
        timers.run_due(now)
    assert len(rung) == 3


@given(st.lists(st.tuples(st.sampled_from(["set", "clear", "pass"]), st.integers(0, 20))))
def test_rings_as_a_plain_timer_would(steps: list[tuple[str, int]]) -> None:
    timers, now, due, expected = Timers(), 0, None, 0
    deadline, rung = rings(timers)
    for step, number in steps:
        if step == "set":
            due = now + number
            deadline.set(due)
        elif step == "clear":
            due = None
            deadline.clear()
        else:
            now += number
            timers.run_due(now)
            if due is not None and due <= now:
                due, expected = None, expected + 1
        assert len(rung) == expected
        assert deadline.due_ms == due
