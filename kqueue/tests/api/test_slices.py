from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.api.slices import SLICE_ITEMS, SLICE_MS, collect, in_slices, settled
from kqueue.base.errors import InvalidRequest
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.testing.simulation import Simulation


@pytest.fixture
def sim() -> Simulation:
    return Simulation({"kqueue.storage": "memory"})


def call(sim: Simulation) -> RequestContext:
    return RequestContext(sim.broker, 0)


def counted(count: int, done: list[int]) -> SlicedWork[str]:
    for number in range(count):
        done.append(number)
        yield
    return "done"


def test_work_of_one_slice_is_answered_at_once(sim: Simulation) -> None:
    assert in_slices(call(sim), counted(SLICE_ITEMS - 1, [])) == "done"


def test_more_work_is_done_slice_by_slice_in_turns(sim: Simulation) -> None:
    first, second, responses = list[int](), list[int](), list[str]()
    for done in (first, second):
        wait = in_slices(call(sim), counted(3 * SLICE_ITEMS - 1, done))
        assert isinstance(wait, DelayedOperation)
        assert len(done) == SLICE_ITEMS
        sim.broker.scheduler.purgatory.add(wait, responses.append)
    for slices in ((2, 1), (2, 2), (3, 2), (3, 3)):
        sim.broker.scheduler.purgatory.run_ready()
        assert (len(first), len(second)) == tuple(min(3 * SLICE_ITEMS - 1, count * SLICE_ITEMS) for count in slices)
    assert responses == ["done", "done"]
    assert not sim.broker.scheduler.purgatory.ready


def test_a_slice_ends_when_its_time_is_over(sim: Simulation) -> None:
    done = list[int]()

    def slow() -> Iterator[None]:
        for number in range(100):
            done.append(number)
            sim.clock.advance(SLICE_MS / 2)
            yield

    def work() -> SlicedWork[str]:
        yield from slow()
        return "done"

    assert isinstance(in_slices(call(sim), work()), DelayedOperation)
    assert len(done) <= 9


def test_work_that_pauses_goes_on_after_that_time(sim: Simulation) -> None:
    done, responses = list[int](), list[str]()

    def work() -> SlicedWork[str]:
        for number in range(3):
            done.append(number)
            yield 50
        return "done"

    wait = in_slices(call(sim), work())
    assert isinstance(wait, DelayedOperation)
    sim.broker.scheduler.purgatory.add(wait, responses.append)
    for count in (1, 2, 3):
        sim.broker.scheduler.purgatory.run_ready()
        assert done == list(range(count)), "nothing is done before its time"
        sim.clock.advance(50)
        sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
    sim.broker.scheduler.purgatory.run_ready()
    assert responses == ["done"]


def test_work_that_fails_fails_its_wait_and_work_that_is_not_awaited_goes_no_further(sim: Simulation) -> None:
    def failing() -> SlicedWork[str]:
        yield from counted(2 * SLICE_ITEMS, [])
        raise InvalidRequest("no")

    failures = list[Exception]()
    sim.broker.scheduler.purgatory.add(in_slices(call(sim), failing()), pytest.fail, failures.append)  # type: ignore[arg-type]
    done = list[int]()
    wait = in_slices(call(sim), counted(9 * SLICE_ITEMS, done))
    assert isinstance(wait, DelayedOperation)
    sim.broker.scheduler.purgatory.add(wait, pytest.fail).cancel()
    sim.settle()
    assert [str(error) for error in failures] == ["no"]
    assert len(done) == SLICE_ITEMS


def test_work_may_end_with_a_wait(sim: Simulation) -> None:
    def work() -> SlicedWork[str | DelayedOperation[str]]:
        yield from counted(SLICE_ITEMS, [])
        return DelayedOperation(("key",), None, lambda expired: "woken")

    responses = list[str]()
    sim.broker.scheduler.purgatory.add(in_slices(call(sim), work()), responses.append)  # type: ignore[arg-type]
    sim.settle()
    assert responses == []
    sim.broker.scheduler.purgatory.wake("key")
    sim.settle()
    assert responses == ["woken"]


def test_collect_keeps_the_order(sim: Simulation) -> None:
    assert sim.answer(in_slices(call(sim), collect(str, range(3000)))) == [str(number) for number in range(3000)]


def test_work_waits_for_a_promise(sim: Simulation) -> None:
    promise, responses = Promise[int](), list[str]()

    def work() -> SlicedWork[str]:
        yield promise
        return f"it is {promise.result()}"

    wait = in_slices(call(sim), work())
    assert isinstance(wait, DelayedOperation)
    sim.broker.scheduler.purgatory.add(wait, responses.append)
    sim.settle()
    assert responses == []
    promise.resolve(7)
    sim.broker.scheduler.purgatory.wake(promise)
    sim.settle()
    assert responses == ["it is 7"]
    assert len(sim.broker.scheduler.purgatory) == 0


def test_settled_waits_for_a_pending_promise_and_raises_its_error() -> None:
    promise = Promise[int]()
    work = settled(promise)
    assert next(work) is promise
    promise.resolve(7)
    with pytest.raises(StopIteration) as end:
        next(work)
    assert end.value.value == 7
    failed = Promise[int]()
    failed.fail(InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        next(settled(failed))
