from __future__ import annotations

import asyncio
import threading

import pytest

from kqueue.base.sliced_task import SlicedWork
from kqueue.workers.executor import JobExecutor
from kqueue.workers.job_steps import run_in_jobs


def run(work: SlicedWork[None]) -> None:
    async def main() -> None:
        jobs = JobExecutor(asyncio.get_running_loop(), 1)
        try:
            await run_in_jobs(work, jobs, "tested", "tested")
        finally:
            jobs.stop()

    asyncio.run(main())


def test_callables_run_in_threads_and_the_rest_on_the_loop() -> None:
    threads: list[int] = []

    def note() -> None:
        threads.append(threading.get_ident())

    def work() -> SlicedWork[None]:
        note()
        yield note
        note()
        yield None
        yield note

    run(work())
    own = threading.get_ident()
    assert [one == own for one in threads] == [True, False, True, False]


def test_an_error_of_a_job_is_raised_in_the_work() -> None:
    seen: list[str] = []

    def fail() -> None:
        raise OSError("no disk")

    def work() -> SlicedWork[None]:
        try:
            yield fail
        except OSError as error:
            seen.append(str(error))
        yield fail

    with pytest.raises(OSError, match="no disk"):
        run(work())
    assert seen == ["no disk"]
