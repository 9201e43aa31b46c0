from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kqueue.base.sliced_task import SlicedWork, run_in_place, run_slice, run_to_end
from kqueue.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def counting(clock: ManualClock, steps: list[int], count: int, ms_each: float = 0) -> SlicedWork[str]:
    for number in range(count):
        steps.append(number)
        clock.advance(ms_each)
        yield None
    return "result"


def fail() -> object:
    raise OSError("EIO")


def asking(ask: Callable[[], object]) -> SlicedWork[str]:
    """Work that yields `ask` once and returns what came back."""
    outcome: object
    try:
        outcome = yield ask
    except OSError as error:
        outcome = error
    yield None
    return repr(outcome)


def test_a_slice_ends_after_its_steps(clock: ManualClock) -> None:
    steps = list[int]()
    work = counting(clock, steps, 12)
    for count in (5, 10):
        assert run_slice(work, clock, 1000, steps_max=5) is None
        assert len(steps) == count
    with pytest.raises(StopIteration) as end:
        run_slice(work, clock, 1000, steps_max=5)
    assert end.value.value == "result"
    assert len(steps) == 12


def test_a_slice_ends_at_its_time_after_one_step_at_least(clock: ManualClock) -> None:
    steps = list[int]()
    work = counting(clock, steps, 100, ms_each=2)
    run_slice(work, clock, 7)
    assert len(steps) == 4
    run_slice(work, clock, 0)
    assert len(steps) == 5


def test_the_clock_is_read_after_so_many_steps(clock: ManualClock) -> None:
    steps = list[int]()
    run_slice(counting(clock, steps, 100, ms_each=2), clock, 1, steps_per_look=4)
    assert len(steps) == 4


def test_a_pause_ends_the_slice(clock: ManualClock) -> None:
    def pausing() -> SlicedWork[str]:
        yield 50
        return "result"

    work = pausing()
    assert run_slice(work, clock, 1000) == 50
    with pytest.raises(StopIteration, match="result"):
        run_slice(work, clock, 1000)
    assert run_to_end(pausing()) == "result"


@pytest.mark.parametrize(("ask", "result"), [(partial(int, "42"), "42"), (fail, "OSError('EIO')")])
def test_the_outcome_of_a_callable_goes_back_to_the_work(
    clock: ManualClock, ask: Callable[[], object], result: str
) -> None:
    work = asking(ask)
    assert run_slice(work, clock, 1000) is ask
    value, error = None, None
    try:
        value = ask()
    except OSError as failure:
        error = failure
    with pytest.raises(StopIteration) as end:
        run_slice(work, clock, 1000, sent=value, error=error)
    assert end.value.value == result


@pytest.mark.parametrize(("ask", "result"), [(partial(int, "42"), "42"), (fail, "OSError('EIO')")])
def test_callables_may_run_in_place(clock: ManualClock, ask: Callable[[], object], result: str) -> None:
    with pytest.raises(StopIteration) as end:
        run_slice(run_in_place(asking(ask)), clock, 1000)
    assert end.value.value == run_to_end(asking(ask)) == result


def test_exception_of_the_work_is_raised_by_its_driver(clock: ManualClock) -> None:
    def failing() -> SlicedWork[None]:
        yield fail

    with pytest.raises(OSError, match="EIO"):
        run_slice(run_in_place(failing()), clock, 1000)
    with pytest.raises(OSError, match="EIO"):
        run_to_end(failing())
