"""Waiting for promises."""

from __future__ import annotations

import pytest

from kqueue.api.request_context import error_of, wait_for, wait_for_all
from kqueue.base.errors import InvalidTopic, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation


def test_a_settled_promise_is_answered_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.resolve(7)
    assert wait_for(promise, lambda done: done.result() + 1) == 8


def test_a_failed_promise_raises_when_its_result_is_read() -> None:
    promise: Promise[int] = Promise()
    promise.fail(InvalidTopic("no"))
    with pytest.raises(InvalidTopic):
        wait_for(promise, lambda done: done.result())


def test_an_open_promise_is_the_key_of_its_wait() -> None:
    promise: Promise[int] = Promise()
    wait = wait_for(promise, lambda done: done.result(), 50.0)
    assert isinstance(wait, DelayedOperation)
    assert (wait.keys, wait.deadline_ms) == ((promise,), 50.0)
    assert wait.try_complete(False) is None
    promise.resolve(3)
    assert wait.try_complete(False) == 3


def test_at_the_deadline_the_answer_is_made_with_what_there_is() -> None:
    first: Promise[int] = Promise()
    two: Promise[int] = Promise()
    first.resolve(1)
    wait = wait_for_all((first, two), lambda: [promise.done for promise in (first, two)], 50.0)
    assert isinstance(wait, DelayedOperation)
    assert wait.try_complete(False) is None
    assert wait.try_complete(True) == [True, False]


def test_errors_are_reported_at_each_stage() -> None:
    refused = InvalidTopic("no")
    promise: Promise[int] = Promise()
    late = error_of(promise, "too late")
    assert isinstance(late, RequestTimedOut)
    assert str(late) == "too late"
    promise.fail(refused)
    assert error_of(promise, "too late") is refused
    assert error_of(refused, "too late") is refused
    assert error_of(None, "too late") is None
