from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest

from kqueue.base.errors import JobCancelled
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.tests.network.harness import until
from kqueue.workers.executor import JobExecutor
from kqueue.workers.loop_pass import PASS_S


def with_jobs(test: Callable[[JobExecutor], Awaitable[None]], threads_max: int = 2) -> None:
    async def run() -> None:
        jobs = JobExecutor(asyncio.get_running_loop(), threads_max, "test-jobs")
        try:
            await test(jobs)
        finally:
            await jobs.drain()
            jobs.stop()

    asyncio.run(run())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-jobs")]


def test_job_runs_in_a_thread_and_completes_on_the_owner_thread() -> None:
    async def test(jobs: JobExecutor) -> None:
        where: list[threading.Thread] = []
        ended: list[tuple[object, object, threading.Thread]] = []

        def work() -> int:
            where.append(threading.current_thread())
            return 42

        jobs.submit(
            IoJob("work", work, lambda result, error: ended.append((result, error, threading.current_thread())))
        )
        assert ended == [], "never from within submit"
        await jobs.drain()
        assert where[0] is not threading.current_thread()
        assert ended == [(42, None, threading.current_thread())]

    with_jobs(test)


def test_error_is_returned_instead_of_a_result() -> None:
    async def test(jobs: JobExecutor) -> None:
        ended: list[object] = []
        trouble = OSError("no disk")

        def fail() -> None:
            raise trouble

        jobs.submit(IoJob("fail", fail, lambda result, error: ended.append((result, error))))
        await jobs.drain()
        assert ended == [(None, trouble)]

    with_jobs(test)


def test_no_more_threads_than_allowed_and_none_before_there_is_work() -> None:
    async def test(jobs: JobExecutor) -> None:
        def threads() -> int:
            return sum(thread.name.startswith("test-jobs") for thread in threading.enumerate())

        assert threads() == 0
        go_on = threading.Event()
        done: list[int] = []
        for number in range(20):
            jobs.submit(IoJob("wait", go_on.wait, lambda result, error, number=number: done.append(number)))
        assert threads() == 3
        assert jobs.under_way == 20
        go_on.set()
        await jobs.drain()
        assert sorted(done) == list(range(20))

    with_jobs(test, threads_max=3)


def test_blocked_loop_may_finish_jobs_itself() -> None:
    async def test(jobs: JobExecutor) -> None:
        go_on = threading.Event()
        done: list[str] = []
        jobs.submit(IoJob("slow", go_on.wait, lambda result, error: done.append("slow")))
        jobs.submit(IoJob("quick", int, lambda result, error: done.append("quick")))
        jobs.submit(IoJob("quick", int, lambda result, error: done.append("quick")))
        assert jobs.names == ["quick", "slow"]
        assert jobs.finish_next(10)
        assert jobs.finish_next(10)
        assert (done, jobs.names, jobs.under_way) == (["quick", "quick"], ["slow"], 1)
        assert not jobs.finish_next(0)
        assert not jobs.finish_next(0.001)
        go_on.set()
        assert jobs.finish_next(10)
        assert (jobs.names, jobs.under_way) == ([], 0)
        await asyncio.sleep(0)  # the loop is woken for jobs that are already finished
        await jobs.drain()
        assert done == ["quick", "quick", "slow"]

    with_jobs(test)


def test_drain_waits_for_jobs_that_finish_submits() -> None:
    async def test(jobs: JobExecutor) -> None:
        done: list[int] = []

        def again(result: int | None, error: BaseException | None) -> None:
            assert result is not None
            done.append(result)
            if result < 5:
                jobs.submit(IoJob("next", lambda: result + 1, again))

        jobs.submit(IoJob("first", lambda: 1, again))
        await jobs.drain()
        assert done == [1, 2, 3, 4, 5]

    with_jobs(test)


def test_failed_completion_is_logged_and_affects_no_other_job(caplog: pytest.LogCaptureFixture) -> None:
    async def test(jobs: JobExecutor) -> None:
        done: list[object] = []

        def broken(result: object, error: object) -> None:
            raise ZeroDivisionError

        jobs.submit(IoJob("broken", lambda: None, broken))
        jobs.submit(IoJob("sound", lambda: None, lambda result, error: done.append(error)))
        await jobs.drain()
        assert done == [None]

    with caplog.at_level(logging.ERROR, "kqueue"):
        with_jobs(test)
    [record] = caplog.records
    assert "job broken ended" in record.getMessage()


def test_jobs_run_inline_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    async def test(jobs: JobExecutor) -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        done: list[int | None] = []
        jobs.submit(IoJob("work", lambda: 1, lambda result, error: done.append(result)))
        assert done == []
        await until(lambda: done == [1])

    with_jobs(test)


def test_cancel_stops_running_jobs_and_starts_no_more() -> None:
    class Task:
        def __init__(self) -> None:
            self.begun = threading.Event()
            self.asked = threading.Event()

        def __call__(self) -> None:
            self.begun.set()
            assert self.asked.wait(60)
            raise JobCancelled("asked")

        def cancel(self) -> None:
            self.asked.set()

    async def test(jobs: JobExecutor) -> None:
        first, later = Task(), Task()
        ended: list[str] = []
        jobs.submit(CpuJob("first", first, lambda result, error: ended.append(repr(error)), shared=False))
        await asyncio.to_thread(first.begun.wait)
        jobs.cancel_cpu()
        jobs.submit(CpuJob("later", later, lambda result, error: ended.append(repr(error)), shared=False))
        await jobs.drain()
        assert sorted(ended) == ["JobCancelled('asked')", "JobCancelled('the broker stops')"]
        assert not later.begun.is_set()

    with_jobs(test)


def test_jobs_of_one_queue_never_wait_for_those_of_another() -> None:
    async def test(jobs: JobExecutor) -> None:
        slow, ended = threading.Event(), list[str]()
        for number in range(20):  # more than there are threads, on a disk that does not answer
            jobs.submit(
                IoJob(f"slow {number}", lambda: slow.wait(60), lambda result, error: ended.append("slow"), "/slow")
            )
        for queue in ("/healthy", "metadata", ""):
            jobs.submit(IoJob("quick", lambda: None, lambda result, error, queue=queue: ended.append(queue), queue))  # type: ignore[misc]
        await until(lambda: len(ended) == 3)
        assert sorted(ended) == ["", "/healthy", "metadata"]
        slow.set()
        await jobs.drain()
        assert ended[3:] == ["slow"] * 20

    with_jobs(test)


def test_each_queue_has_the_configured_number_of_threads() -> None:
    async def test(jobs: JobExecutor) -> None:
        running, hold = list[str](), threading.Event()

        def work(queue: str) -> None:
            running.append(queue)
            hold.wait(60)

        for queue in ("/one", "/two"):
            for _ in range(5):
                jobs.submit(IoJob("work", lambda queue=queue: work(queue), lambda result, error: None, queue))  # type: ignore[misc]
        await until(lambda: len(running) >= 6)
        assert sorted(running) == ["/one"] * 3 + ["/two"] * 3
        hold.set()
        await jobs.drain()

    with_jobs(test, threads_max=3)


def test_many_completions_let_the_loop_poll_between_them() -> None:
    async def test(jobs: JobExecutor) -> None:
        now_s, finished, finished_at_poll = 0.0, 0, list[int]()
        jobs._now = lambda: now_s
        ended = threading.Semaphore(0)

        def finish(result: object, error: object) -> None:
            nonlocal now_s, finished
            now_s += PASS_S / 4
            finished += 1

        def poll() -> None:
            finished_at_poll.append(finished)
            if finished < 20:
                asyncio.get_running_loop().call_soon(poll)

        for _ in range(20):
            jobs.submit(IoJob("work", ended.release, finish))
        for _ in range(20):
            ended.acquire()
        poll()
        await jobs.drain()
        assert max(later - earlier for earlier, later in itertools.pairwise([*finished_at_poll, 20])) <= 2 * 5, (
            "two passes"
        )

    with_jobs(test)


def test_the_number_of_threads_can_change() -> None:
    async def test(jobs: JobExecutor) -> None:
        gate = threading.Event()
        running = threading.Semaphore(0)

        def work() -> None:
            running.release()
            assert gate.wait(60)

        def submit(count: int) -> None:
            for _ in range(count):
                jobs.submit(IoJob("work", work, lambda result, error: None))

        submit(4)
        assert all(running.acquire(timeout=60) for _ in range(2))
        assert not running.acquire(timeout=0.05), "two threads at most"
        jobs.resize(3)
        submit(1)
        assert running.acquire(timeout=60)
        gate.set()
        await jobs.drain()
        jobs.resize(1)
        await until(lambda: sum(thread.name.startswith("test-jobs") for thread in threading.enumerate()) == 1)
        gate.clear()
        while running.acquire(blocking=False):
            pass
        submit(3)
        assert running.acquire(timeout=60)
        assert not running.acquire(timeout=0.05), "one thread at most"
        jobs.resize(2)
        submit(1)
        assert running.acquire(timeout=60)
        gate.set()

    with_jobs(test)


def test_jobs_that_end_together_are_finished_in_one_pass() -> None:
    async def test(jobs: JobExecutor) -> None:
        done: list[int] = []
        passes: list[int] = []

        def run_pass(work: Callable[[], None]) -> None:
            work()
            passes.append(len(done))

        jobs.run_pass = run_pass
        for number in range(5):
            jobs.submit(IoJob("work", int, lambda result, error, number=number: done.append(number)))  # type: ignore[misc]
        threads = [*jobs._queues[""].threads]
        jobs.resize(0)
        for thread in threads:  # all jobs end within this turn of the loop
            thread.join()
        await jobs.drain()
        assert passes == [5]

    with_jobs(test, threads_max=1)
