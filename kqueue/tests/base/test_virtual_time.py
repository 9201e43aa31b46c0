from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers
from kqueue.base.virtual_time import advance_in_steps
from kqueue.testing.manual_clock import ManualClock


class Room:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.ran: list[tuple[str, float]] = []

    def at(self, deadline_ms: float, name: str) -> None:
        self.timers.at(deadline_ms, lambda: self.note(name))

    def note(self, name: str) -> None:
        self.ran.append((name, self.clock.monotonic_ms()))

    def pass_(self, ms: float, parts: int | None = None) -> int:
        return sum(1 for _ in advance_in_steps(self.timers, self.clock, ms, parts=parts))


def test_each_timer_runs_at_its_time_and_what_it_leads_to_at_its_own() -> None:
    room = Room()
    room.timers.at(45, lambda: (room.note("session"), room.at(45 + 700, "offsets")))
    room.at(400, "between")
    room.at(1001, "later")
    room.pass_(1000)
    assert room.ran == [("session", 45), ("between", 400), ("offsets", 745)]
    assert room.clock.monotonic_ms() == 1000
    assert room.timers.next_deadline_ms() == 1001


def test_overdue_timer_runs_at_once_at_the_present_time() -> None:
    room = Room()
    room.at(-5, "overdue")
    room.clock.advance(10)
    room.pass_(0)
    assert room.ran == [("overdue", 10)]


def test_the_caller_has_a_turn_before_time_goes_on() -> None:
    """What a job leads to is due from the moment in which it was set off."""
    room = Room()
    room.at(100, "first")
    for _ in advance_in_steps(room.timers, room.clock, 1000):
        if room.ran == [("first", 100)]:
            room.at(room.clock.monotonic_ms() + 60, "second")
    assert room.ran[:2] == [("first", 100), ("second", 160)]


def test_a_turn_of_the_caller_comes_first_of_all() -> None:
    room = Room()
    moments = advance_in_steps(room.timers, room.clock, 1000)
    next(moments)
    assert room.clock.monotonic_ms() == 0
    room.at(5, "of the first turn")
    list(moments)
    assert room.ran == [("of the first turn", 5)]


def test_series_run_rarely_on_a_long_way_and_at_their_intervals_at_its_end() -> None:
    room = Room()
    room.timers.every(1, lambda: room.note("often"))
    room.timers.every(4000, lambda: room.note("rarely"))
    room.at(123.5, "once")
    room.pass_(100_000, parts=50)
    often = [at for name, at in room.ran if name == "often"]
    assert 50 * math.log(100_000 / 50) < len(often) < 50 * math.log(100_000 / 50) + 100
    assert often[-1] > 99_999
    assert all(1 <= round(later - one, 6) <= max(1, round((100_000 - one) / 50, 6)) for one, later in pairwise(often))
    assert len([at for name, at in room.ran if name == "rarely"]) == 25
    assert ("once", 123.5) in room.ran
    due = room.timers.next_deadline_ms()
    assert due == often[-1] + 1


def test_without_a_limit_series_run_as_often_as_they_would() -> None:
    room = Room()
    room.timers.every(1, lambda: room.note("often"))
    room.pass_(1000)
    assert len(room.ran) == 1000


def test_a_series_that_is_due_on_the_way_comes_before_its_end() -> None:
    room = Room()
    room.timers.every(100, lambda: room.at(room.clock.monotonic_ms(), "at once"))
    room.pass_(350, parts=1)
    assert room.ran[-1] == ("at once", 350)


def test_intervals_are_right_again_when_the_caller_gives_up() -> None:
    room = Room()
    room.timers.every(1, lambda: room.note("often"))
    moments = advance_in_steps(room.timers, room.clock, 1000, parts=2)
    while len(room.ran) < 2:
        next(moments)
    moments.close()
    room.pass_(1000)
    assert room.ran[3][1] - room.ran[2][1] == 1


def test_timer_exceptions_may_be_handled_by_the_runner() -> None:
    room = Room()
    failed: list[float] = []

    def fail() -> None:
        raise ZeroDivisionError

    def run_due(now_ms: float) -> None:
        try:
            room.timers.run_due(now_ms)
        except ZeroDivisionError:
            failed.append(now_ms)

    room.timers.at(10, fail)
    room.at(10, "behind it")
    for _ in advance_in_steps(room.timers, room.clock, 20, run_due=run_due):
        pass
    assert (failed, room.ran) == ([10], [("behind it", 10)])
    room.timers.at(30, fail)
    with pytest.raises(ZeroDivisionError):
        room.pass_(20)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=20), st.lists(st.integers(0, 60), max_size=6)
)
def test_timers_and_what_they_lead_to_run_as_in_time_that_goes_by_itself(
    chains: list[tuple[int, int]], parts: list[int]
) -> None:
    def start(room: Room) -> None:
        for number, (first, then) in enumerate(chains):

            def lead(name: str = str(number), at: int = first + then) -> None:
                room.note(name)
                room.at(at, f"{name} later")

            room.timers.at(first, lead)

    pushed, ticking = Room(), Room()
    start(pushed)
    start(ticking)
    for part in parts:
        pushed.pass_(part)
    for _ in range(sum(parts) + 1):
        while (due := ticking.timers.next_deadline_ms()) is not None and due <= ticking.clock.monotonic_ms():
            ticking.timers.run_due(due)
        ticking.clock.advance(1)
    expected = [(name, at) for name, at in ticking.ran if at <= sum(parts)]
    if parts:
        assert sorted(pushed.ran) == sorted(expected)
        assert [at for _, at in pushed.ran] == sorted(at for _, at in expected)
