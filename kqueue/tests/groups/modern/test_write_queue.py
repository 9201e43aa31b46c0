from __future__ import annotations

import pytest

from kqueue.base.errors import GroupIdNotFound, KqueueError, NotCoordinator, StorageFailed
from kqueue.base.timers import Timers
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.group_writer import GroupWriter
from kqueue.groups.modern.write_queue import BYTES_PER_APPEND, RECORDS_PER_APPEND, WriteQueue
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.groups.support import HeldLog


class Fixture:
    def __init__(self) -> None:
        self.log = HeldLog(1)
        clock = ManualClock()
        writer = GroupWriter(self.log, Timers(clock), clock, lambda: 5000)
        self.queue = WriteQueue(writer, lambda promise: None)
        self.memory: list[int] = []

    def put(self, *numbers: int, size: int = 1, error: KqueueError | None = None) -> object:
        def step(changes: Changes) -> int:
            for number in numbers:
                self.memory.append(number)
                changes.add(b"%d" % number, bytes(size), self.memory.pop)
            if error is not None:
                raise error
            return len(self.memory)

        return self.queue.submit("g", step)

    @property
    def appended(self) -> list[int]:
        return [int(key) for key, _ in self.log.records()]


@pytest.fixture
def queue() -> Fixture:
    return Fixture()


def test_a_step_is_answered_when_it_is_in_the_log(queue: Fixture) -> None:
    queue.log.hold = True
    promise = queue.put(1)
    assert (promise.done, queue.memory) == (False, [1])  # type: ignore[attr-defined]
    queue.log.release()
    assert promise.result() == 1  # type: ignore[attr-defined]
    assert queue.appended == [1]


def test_steps_that_wait_are_one_append(queue: Fixture) -> None:
    queue.log.hold = True
    promises = [queue.put(number) for number in range(5)]
    assert queue.memory == [0], "nothing is built on what may fail"
    queue.log.release(1)
    assert len(queue.log.held) == 1
    queue.log.release(1)
    assert [promise.result() for promise in promises] == [1, 2, 3, 4, 5]  # type: ignore[attr-defined]


def test_a_refused_step_leaves_the_others(queue: Fixture) -> None:
    queue.log.hold = True
    queue.put(0)
    refused, other = queue.put(1, error=GroupIdNotFound("g")), queue.put(2)
    queue.log.release(1)
    queue.log.release(1)
    assert isinstance(refused.error, GroupIdNotFound)  # type: ignore[attr-defined]
    assert other.result() == 2  # type: ignore[attr-defined]
    assert (queue.memory, queue.appended) == ([0, 2], [0, 2])


def test_a_refused_step_is_never_committed(queue: Fixture) -> None:
    called: list[str] = []

    def refused(changes: Changes) -> None:
        changes.on_committed.append(lambda: called.append("refused"))
        raise GroupIdNotFound("g")

    queue.queue.submit("g", refused)
    queue.put(1)
    assert called == []


def test_a_failed_append_is_taken_back_and_the_next_goes_on(queue: Fixture) -> None:
    queue.log.hold = True
    failed, waiting = queue.put(1, 2), queue.put(3)
    queue.log.broken = StorageFailed("EIO")
    queue.log.release(1)
    queue.log.broken = None
    assert isinstance(failed.error, NotCoordinator)  # type: ignore[attr-defined]
    queue.log.release()
    assert waiting.result() == 1  # type: ignore[attr-defined]
    assert (queue.memory, queue.appended) == ([3], [3])


@pytest.mark.parametrize(
    ("count", "size", "batches"),
    [(RECORDS_PER_APPEND + 1, 1, 2), (3, BYTES_PER_APPEND, 3), (2, BYTES_PER_APPEND // 3, 1)],
)
def test_a_large_step_takes_several_appends(queue: Fixture, count: int, size: int, batches: int) -> None:
    queue.log.hold = True
    promise = queue.put(*range(count), size=size)
    for _ in range(batches):
        assert not promise.done  # type: ignore[attr-defined]
        queue.log.release(1)
    assert promise.result() == count  # type: ignore[attr-defined]
    assert queue.appended == list(range(count))


def test_durable_part_of_a_failed_step_stays(queue: Fixture) -> None:
    queue.log.hold = True
    promise = queue.put(*range(RECORDS_PER_APPEND + 5))
    queue.log.release(1)
    queue.log.fail(StorageFailed("EIO"))
    assert promise.error is not None  # type: ignore[attr-defined]
    assert queue.memory == queue.appended == list(range(RECORDS_PER_APPEND))
