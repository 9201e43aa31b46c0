from __future__ import annotations

import asyncio

import pytest

from kqueue.embedded.inspection import broker_calls
from kqueue.embedded.inspection.broker_calls import NoSuchName, poll_until_true, poll_until_true_async


def test_names_that_are_not_there_are_key_errors_with_readable_words() -> None:
    error = NoSuchName("topic", "ordres", ["mail", "orders"])
    assert isinstance(error, KeyError)
    assert str(error) == "there is no topic 'ordres'; did you mean 'orders'?"
    assert str(NoSuchName("topic", "x", [])) == "there is no topic 'x'"


def test_condition_true_at_once_is_checked_once() -> None:
    looks = []
    poll_until_true(lambda: looks.append(1), 10, "")
    assert looks == [1]


def test_condition_is_polled_until_it_is_true() -> None:
    problems = ["not yet", "not yet", None]
    poll_until_true(lambda: problems.pop(0), 20, "")
    assert problems == []


def test_without_a_time_it_looks_once() -> None:
    problems = ["no", None]
    with pytest.raises(AssertionError, match=r"^no$"):
        poll_until_true(lambda: problems.pop(0), 0, "")
    assert problems == [None]


def test_the_last_problem_is_told_with_the_time_in_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 7.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        assert 0 < seconds <= broker_calls.POLL_S
        now_s += seconds

    monkeypatch.setattr(broker_calls, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(broker_calls, "sleep", sleep)
    numbers = iter(range(10**9))
    with pytest.raises(AssertionError) as caught:
        poll_until_true(lambda: f"look {next(numbers)}\n    a line", 0.03, "")
    assert now_s == pytest.approx(7.03)
    first, second = str(caught.value).splitlines()
    assert first.startswith("look ")
    assert first.endswith(" (after 0.03 s)")
    assert int(first.split()[1]) >= 1
    assert second == "    a line"


def test_waiting_is_refused_in_an_event_loop_but_one_check_is_not() -> None:
    async def block() -> None:
        poll_until_true(lambda: None, 0, "")
        poll_until_true(lambda: None, 1, "await it()")

    with pytest.raises(RuntimeError, match=r"would block the running event loop.*write: await it\(\)$"):
        asyncio.run(block())


def test_a_coroutine_looks_again_until_it_is_true_while_its_loop_goes_on() -> None:
    problems = ["not yet", "not yet"]

    async def others() -> None:
        while problems:
            await asyncio.sleep(0)
            problems.pop()

    async def wait() -> None:
        await asyncio.gather(poll_until_true_async(lambda: "still" if problems else None, 20), others())

    asyncio.run(wait())
    with pytest.raises(AssertionError, match=r"^no \(after 0.01 s\)$"):
        asyncio.run(poll_until_true_async(lambda: "no", 0.01))
