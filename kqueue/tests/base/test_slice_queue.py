from __future__ import annotations

import pytest

from kqueue.base.slice_queue import SLICE_MS, STEPS_PER_LOOK, SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.testing.manual_clock import ManualClock


class Harness:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.slices = SliceQueue(self.timers, self.clock)
        self.done: list[str] = []

    def steps(self, name: str, count: int, ms: float = 0) -> SlicedWork[None]:
        for _ in range(count):
            self.done.append(name)
            self.clock.advance(ms)
            yield None

    def turn(self) -> int:
        before = len(self.done)
        self.timers.run_due(self.clock.monotonic_ms())
        return len(self.done) - before


def test_little_work_is_done_at_once() -> None:
    harness = Harness()
    harness.slices.add(harness.steps("a", 1000))
    assert len(harness.done) == 1000
    assert len(harness.slices) == 0
    assert harness.timers.next_deadline_ms() is None


def test_much_work_gives_the_loop_its_turns_and_keeps_the_order() -> None:
    harness = Harness()
    harness.slices.add(harness.steps("a", 200, ms=1))
    assert len(harness.done) == STEPS_PER_LOOK
    harness.slices.add(harness.steps("b", 3))
    turns = 0
    while len(harness.slices):
        assert harness.turn() <= STEPS_PER_LOOK + SLICE_MS
        turns += 1
    assert turns >= 200 // STEPS_PER_LOOK - 1
    assert harness.done == ["a"] * 200 + ["b"] * 3


def test_running_work_is_not_added_twice() -> None:
    harness = Harness()
    harness.slices.add_once("upkeep", harness.steps("a", 100, ms=1))
    harness.slices.add_once("upkeep", harness.steps("b", 1))
    harness.slices.finish()
    harness.slices.add_once("upkeep", harness.steps("c", 1))
    assert harness.done == ["a"] * 100 + ["c"]


def test_work_that_fails_does_not_stop_what_is_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()

    def failing() -> SlicedWork[None]:
        harness.clock.advance(SLICE_MS)
        yield from [None] * STEPS_PER_LOOK
        raise OSError("EIO")

    harness.slices.add(failing())
    harness.slices.add(harness.steps("a", 1))
    assert harness.done == []
    harness.turn()
    assert harness.done == ["a"]
    assert "the rest of it is not done" in caplog.text
