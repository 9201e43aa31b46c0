from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.responses import DeferredResponse
from kqueue.testing.manual_clock import ManualClock


class World:
    """A `DeferredResponse`, and what came of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers, self.clock)
        self.told: list[Any] = []
        self.deferred = DeferredResponse(self.told.append, self.told.append)

    def hold(self, deadline_ms: float | None, answer: Any = "early") -> None:
        def retry(expired: bool) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return "late" if expired else answer

        self.deferred.watch(self.purgatory, DelayedOperation(("key",), deadline_ms, retry))

    def wake(self) -> None:
        self.purgatory.wake("key")
        self.purgatory.run_ready()


@pytest.fixture
def world() -> World:
    return World()


def test_an_answer_comes_when_its_key_is_woken_and_only_once(world: World) -> None:
    world.hold(1000)
    assert world.told == []
    world.wake()
    world.wake()
    world.deferred.expire()
    assert world.told == ["early"]


def test_what_has_a_deadline_is_answered_as_at_its_deadline(world: World) -> None:
    world.hold(1000)
    world.deferred.expire()
    assert world.told == ["late"]
    world.clock.advance(1000)
    assert world.timers.run_due(1000) == 0
    world.wake()
    assert world.told == ["late"]


def test_what_has_none_waits_on(world: World) -> None:
    world.hold(None)
    world.deferred.expire()
    assert world.told == []
    world.wake()
    assert world.told == ["early"]


def test_an_answer_that_fails_is_told_as_such(world: World) -> None:
    error = ValueError("on purpose")
    world.hold(1000, error)
    world.deferred.expire()
    assert world.told == [error]


def test_nobody_is_answered_after_a_cancel(world: World) -> None:
    world.hold(1000)
    world.deferred.cancel()
    world.deferred.cancel()
    world.deferred.expire()
    world.wake()
    assert world.told == []


def test_what_was_never_held_can_be_let_go(world: World) -> None:
    world.deferred.cancel()
    world.deferred.expire()
    assert world.told == []
