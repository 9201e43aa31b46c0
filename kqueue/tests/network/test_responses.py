from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.responses import DeferredResponse
from kqueue.testing.manual_clock import ManualClock


class World:
    """A `DeferredResponse` and the results it delivered."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers, self.clock)
        self.results: list[Any] = []
        self.deferred = DeferredResponse(self.results.append, self.results.append)

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


def test_response_is_sent_once_when_its_key_is_woken(world: World) -> None:
    world.hold(1000)
    assert world.results == []
    world.wake()
    world.wake()
    world.deferred.expire()
    assert world.results == ["early"]


def test_response_with_a_deadline_expires(world: World) -> None:
    world.hold(1000)
    world.deferred.expire()
    assert world.results == ["late"]
    world.clock.advance(1000)
    world.timers.run_due(1000)
    world.wake()
    assert world.results == ["late"]


def test_response_without_a_deadline_does_not_expire(world: World) -> None:
    world.hold(None)
    world.deferred.expire()
    assert world.results == []
    world.wake()
    assert world.results == ["early"]


def test_failed_response_is_reported(world: World) -> None:
    error = ValueError("on purpose")
    world.hold(1000, error)
    world.deferred.expire()
    assert world.results == [error]


def test_no_response_after_cancel(world: World) -> None:
    world.hold(1000)
    world.deferred.cancel()
    world.deferred.cancel()
    world.deferred.expire()
    world.wake()
    assert world.results == []


def test_unregistered_response_can_be_cancelled(world: World) -> None:
    world.deferred.cancel()
    world.deferred.expire()
    assert world.results == []
