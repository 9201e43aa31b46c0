from __future__ import annotations

import threading

from kqueue.base.jobs import Jobs
from kqueue.log.folders.task_queue import SLICE, KeyedTaskQueue
from kqueue.testing.stepped_jobs import SteppedJobs


class Recorded(KeyedTaskQueue[int, str]):
    """Notes what was done and applied; pieces that are called "bad" fail."""

    def __init__(self, jobs: Jobs | None) -> None:
        super().__init__(jobs)
        self.done: list[int] = []
        self.results: list[tuple[int, bool]] = []
        self.slices = 0

    def do(self, key: int, piece: str) -> None:
        self.done.append(key)
        if piece == "bad":
            raise OSError("EIO")

    def finish_slice(self) -> None:
        self.slices += 1

    def applied(self, key: int, piece: str, error: BaseException | None) -> None:
        self.results.append((key, error is None))


def test_tasks_run_in_order_a_slice_per_job() -> None:
    jobs = SteppedJobs()
    work = Recorded(jobs)
    count = 2 * SLICE + 1
    for key in range(count):
        work.add(key, "good")
        assert len(jobs.pending) == 1
    assert work.done == []
    assert len(work) == count
    assert sorted(work.pending()) == list(range(count))
    jobs.run_all()
    assert work.pending() == []
    assert work.done == list(range(count))
    assert work.results == [(key, True) for key in range(count)]
    assert 3 <= work.slices <= 4, "the first slice begins with what is there then"
    assert work.is_idle
    assert len(work) == 0


def test_without_jobs_a_task_runs_when_it_is_added() -> None:
    work = Recorded(None)
    work.add(1, "good")
    work.add(2, "bad")
    assert work.results == [(1, True), (2, False)]
    assert work.slices == 2


def test_an_urgent_task_runs_immediately_and_once() -> None:
    jobs = SteppedJobs()
    work = Recorded(jobs)
    for key in range(3):
        work.add(key, "good")
    work.settle(0)  # in a slice whose job has not run
    work.settle(2)  # waits for the next slice
    assert work.results == [(0, True), (2, True)]
    jobs.run_all()
    assert sorted(work.done) == [0, 1, 2]
    work.settle(1)
    work.settle(7)
    assert sorted(work.done) == [0, 1, 2]


def test_a_result_that_the_job_has_is_applied_when_it_is_asked_for() -> None:
    jobs = SteppedJobs()
    work = Recorded(jobs)
    work.add(0, "good")
    job = jobs.pending.popleft()
    job.run()  # type: ignore[union-attr]
    assert work.is_pending(0)
    work.settle(0)
    assert work.results == [(0, True)]
    job.finish(None, None)
    assert work.results == [(0, True)]
    assert not work.is_pending(0)


def test_a_task_can_be_cancelled_until_it_ran() -> None:
    jobs = SteppedJobs()
    work = Recorded(jobs)
    for key in range(3):
        work.add(key, "good")
    assert work.cancel(0)
    assert work.cancel(2)
    assert not work.cancel(2)
    jobs.run_all()
    assert work.done == [1]
    assert not work.cancel(1)


def test_the_owner_waits_for_a_running_task() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Recorded):
        def do(self, key: int, piece: str) -> None:
            begun.set()
            assert go_on.wait(60)
            super().do(key, piece)

    jobs = SteppedJobs()
    work = Slow(jobs)
    work.add(0, "good")
    job = jobs.pending.popleft()
    thread = threading.Thread(target=job.run)  # type: ignore[union-attr]
    thread.start()
    assert begun.wait(60)
    other = threading.Timer(0, go_on.set)
    other.start()
    work.settle(0)  # whichever comes first, it returns only with the result
    assert work.results == [(0, True)]
    thread.join()
    other.join()
    job.finish(None, None)
    assert work.done == [0]
