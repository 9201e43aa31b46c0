from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.base.slice_queue import SLICE_MS, STEPS_PER_LOOK, SliceQueue
from kqueue.base.timers import Timers
from kqueue.testing.manual_clock import ManualClock


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.slices = SliceQueue(self.timers, self.clock)
        self.done: list[str] = []

    def steps(self, name: str, count: int, ms: float = 0) -> Iterator[None]:
        for _ in range(count):
            self.done.append(name)
            self.clock.advance(ms)
            yield

    def turn(self) -> int:
        before = len(self.done)
        self.timers.run_due(self.clock.monotonic_ms())
        return len(self.done) - before


def test_little_work_is_done_at_once() -> None:
    desk = Desk()
    desk.slices.add(desk.steps("a", 1000))
    assert len(desk.done) == 1000
    assert len(desk.slices) == 0
    assert desk.timers.next_deadline_ms() is None


def test_much_work_gives_the_loop_its_turns_and_keeps_the_order() -> None:
    desk = Desk()
    desk.slices.add(desk.steps("a", 200, ms=1))
    assert len(desk.done) == STEPS_PER_LOOK
    desk.slices.add(desk.steps("b", 3))
    turns = 0
    while len(desk.slices):
        assert desk.turn() <= STEPS_PER_LOOK + SLICE_MS
        turns += 1
    assert turns >= 200 // STEPS_PER_LOOK - 1
    assert desk.done == ["a"] * 200 + ["b"] * 3


def test_what_is_not_over_is_not_begun_twice() -> None:
    desk = Desk()
    desk.slices.add_once("upkeep", desk.steps("a", 100, ms=1))
    desk.slices.add_once("upkeep", desk.steps("b", 1))
    desk.slices.finish()
    desk.slices.add_once("upkeep", desk.steps("c", 1))
    assert desk.done == ["a"] * 100 + ["c"]


def test_work_that_fails_does_not_stop_what_is_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()

    def failing() -> Iterator[None]:
        desk.clock.advance(SLICE_MS)
        yield from [None] * STEPS_PER_LOOK
        raise OSError("EIO")

    desk.slices.add(failing())
    desk.slices.add(desk.steps("a", 1))
    assert desk.done == []
    desk.turn()
    assert desk.done == ["a"]
    assert "the rest of it is not done" in caplog.text
