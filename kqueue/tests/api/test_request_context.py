"""Waiting for promises."""

from __future__ import annotations

import pytest

from kqueue.api.request_context import error_of, wait_for, wait_for_all
from kqueue.base.errors import InvalidTopic, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation


def test_a_settled_ticket_is_answered_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.resolve(7)
    assert wait_for(promise, lambda done: done.result() + 1) == 8


def test_a_failed_ticket_raises_where_its_result_is_asked() -> None:
    promise: Promise[int] = Promise()
    promise.fail(InvalidTopic("no"))
    with pytest.raises(InvalidTopic):
        wait_for(promise, lambda done: done.result())


def test_an_open_ticket_is_waited_for_by_its_own_key() -> None:
    promise: Promise[int] = Promise()
    wait = wait_for(promise, lambda done: done.result(), 50.0)
    assert isinstance(wait, DelayedOperation)
    assert (wait.keys, wait.deadline_ms) == ((promise,), 50.0)
    assert wait.try_complete(False) is None
    promise.resolve(3)
    assert wait.try_complete(False) == 3


def test_at_the_deadline_the_answer_is_made_with_what_there_is() -> None:
    one: Promise[int] = Promise()
    two: Promise[int] = Promise()
    one.resolve(1)
    wait = wait_for_all((one, two), lambda: [promise.done for promise in (one, two)], 50.0)
    assert isinstance(wait, DelayedOperation)
    assert wait.try_complete(False) is None
    assert wait.try_complete(True) == [True, False]


def test_what_went_wrong_is_told_at_each_stage() -> None:
    refused = InvalidTopic("no")
    promise: Promise[int] = Promise()
    late = error_of(promise, "too late")
    assert isinstance(late, RequestTimedOut)
    assert str(late) == "too late"
    promise.fail(refused)
    assert error_of(promise, "too late") is refused
    assert error_of(refused, "too late") is refused
    assert error_of(None, "too late") is None
