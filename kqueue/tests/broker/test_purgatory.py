from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers
from kqueue.broker.expiry import TIMERLESS_MS
from kqueue.broker.purgatory import DelayedOperation, Purgatory


class StillClock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall_ms(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def waiting(timers: Timers) -> Purgatory:
    return Purgatory(timers, StillClock())


def test_a_wait_is_answered_when_its_key_is_woken_and_its_retry_has_an_answer(waiting: Purgatory) -> None:
    completed, responses = list[str](), list[str]()
    waiting.add(
        DelayedOperation(("a", "b"), None, lambda expired: completed[0] if completed else None), responses.append
    )
    waiting.wake("b")
    assert waiting.run_ready() == 1
    assert responses == []
    completed.append("done")
    assert waiting.run_ready() == 0, "nothing woke it"
    waiting.wake("a")
    waiting.wake("b")
    assert waiting.run_ready() == 1, "woken twice, retried once"
    assert responses == ["done"]
    assert len(waiting) == 0


def test_keys_that_are_woken_are_in_the_set_of_an_operation_that_has_one(waiting: Purgatory) -> None:
    woken: set[object] = set()
    waiting.add(DelayedOperation(("a", "b", "c"), None, lambda expired: None, woken=woken), lambda response: None)
    for key in ("a", "c", "a", "other"):
        waiting.wake(key)
    assert woken == {"a", "c"}


def test_a_deadline_must_answer_and_comes_once(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    waiting.add(DelayedOperation(("a",), 100, lambda expired: "late" if expired else None), responses.append)
    timers.run_due(99)
    assert responses == []
    timers.run_due(100)
    assert responses == ["late"]
    waiting.wake("a")
    assert waiting.run_ready() == 0
    assert len(waiting) == 0


@pytest.mark.parametrize("deadline_ms", [TIMERLESS_MS, 10 * TIMERLESS_MS])
def test_operation_that_is_complete_has_no_timer_left(waiting: Purgatory, timers: Timers, deadline_ms: float) -> None:
    waiting.add(DelayedOperation(("a",), deadline_ms, lambda expired: "now"), lambda response: None)
    waiting.wake("a")
    waiting.run_ready()
    timers.run_due(TIMERLESS_MS)
    assert timers.next_deadline_ms() is None


def test_operations_that_complete_soon_share_one_timer(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    for _ in range(100):
        waiting.add(DelayedOperation(("a",), 30_000, lambda expired: "now"), responses.append)
    waiting.wake("a")
    waiting.run_ready()
    assert (len(responses), timers.run_due(30_000), timers.next_deadline_ms()) == (100, 1, None)


def test_operation_that_waits_on_expires_at_its_deadline(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    waiting.add(DelayedOperation(("a",), 30_000, lambda expired: "late" if expired else None), responses.append)
    timers.run_due(29_999)
    assert responses == []
    timers.run_due(30_000)
    assert responses == ["late"]


def test_deadline_that_becomes_later_or_none_before_the_first_timer_counts(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    operations = [
        DelayedOperation((key,), 1000, lambda expired: "late" if expired else None) for key in ("later", "never")
    ]
    for operation in operations:
        waiting.add(operation, responses.append)
    operations[0].deadline_ms, operations[1].deadline_ms = 2000, None
    for key in ("later", "never"):
        waiting.wake(key)
    waiting.run_ready()
    timers.run_due(1999)
    assert responses == []
    timers.run_due(2000)
    assert (responses, len(waiting)) == (["late"], 1)


def test_a_cancelled_wait_is_never_answered(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    waiter = waiting.add(DelayedOperation(("a",), 100, lambda expired: "x"), responses.append)
    waiting.wake("a")
    waiter.cancel()
    waiter.cancel()
    waiting.run_ready()
    timers.run_due(200)
    assert responses == []
    assert len(waiting) == 0


def test_a_retry_that_raises_harms_no_other(waiting: Purgatory) -> None:
    responses, errors = list[str](), list[Exception]()

    def broken(expired: bool) -> str | None:
        raise RuntimeError("boom")

    waiting.add(DelayedOperation(("a",), None, broken), responses.append, errors.append)
    waiting.add(DelayedOperation(("a",), None, lambda expired: "fine"), responses.append, errors.append)
    waiting.wake("a")
    waiting.run_ready()
    assert responses == ["fine"]
    assert [str(error) for error in errors] == ["boom"]
    assert len(waiting) == 0


def test_the_owner_is_notified_once_when_an_operation_is_ready(waiting: Purgatory) -> None:
    calls = list[str]()
    waiting.on_ready = lambda: calls.append("ready")
    waiting.add(DelayedOperation(("a",), None, lambda expired: None), lambda response: None)
    waiting.wake("nobody")
    assert calls == []
    waiting.wake("a")
    waiting.defer(lambda: None)
    assert calls == ["ready"]
    assert waiting.ready
    waiting.run_ready()
    waiting.wake("a")
    assert calls == ["ready", "ready"]


def test_operation_woken_by_a_retry_runs_in_the_same_turn(waiting: Purgatory) -> None:
    responses = list[str]()
    done = list[bool]()
    waiting.add(DelayedOperation(("second",), None, lambda expired: "second" if done else None), responses.append)

    def first(expired: bool) -> str:
        done.append(True)
        waiting.wake("second")
        return "first"

    waiting.add(DelayedOperation(("first",), None, first), responses.append)
    waiting.wake("first")
    waiting.run_ready()
    assert responses == ["first", "second"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30),
    st.lists(st.sampled_from("abc"), max_size=5),
)
def test_exactly_those_woken_are_answered(plan: list[tuple[str, bool]], woken: list[str]) -> None:
    waiting, responses = Purgatory(Timers(), StillClock()), list[int]()
    for index, (key, cancel) in enumerate(plan):
        waiter = waiting.add(DelayedOperation((key,), None, lambda expired, index=index: index + 1), responses.append)
        if cancel:
            waiter.cancel()
    for key in woken:
        waiting.wake(key)
    waiting.run_ready()
    assert sorted(responses) == [index + 1 for index, (key, cancel) in enumerate(plan) if key in woken and not cancel]


def test_keys_for_later_turns_are_woken_one_in_each(waiting: Purgatory) -> None:
    tried, turns = list[str](), list[int]()
    waiting.on_ready = lambda: turns.append(1)
    for key in "ab":
        waiting.add(DelayedOperation((key,), None, lambda expired, key=key: tried.append(key)), tried.append)  # type: ignore[misc, func-returns-value]
        waiting.wake_in_later_turn(key)
    assert len(turns) >= 2, "what drives the turns hears of it"
    for expected in ("a", "ab"):
        assert waiting.ready
        assert waiting.run_ready()
        assert "".join(tried) == expected
    assert not waiting.ready
    assert waiting.run_ready() == 0


def test_a_retry_may_return_another_operation(waiting: Purgatory, timers: Timers) -> None:
    responses = list[str]()
    second = DelayedOperation(("b",), 5.0, lambda expired: "late" if expired else "done")
    waiter = waiting.add(DelayedOperation(("a",), None, lambda expired: second), responses.append)
    waiting.wake("a")
    waiting.run_ready()
    assert waiter.pending
    assert waiter.operation is second
    waiting.wake("a")
    assert waiting.run_ready() == 0, "the first wait's keys are forgotten"
    timers.run_due(5.0)
    assert responses == ["late"]
    assert len(waiting) == 0
