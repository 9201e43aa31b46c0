"""Sliced work whose slow steps run in jobs, as a coroutine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.sliced_task import SlicedWork

T = TypeVar("T")


async def run_in_jobs(work: SlicedWork[None], jobs: Jobs, name: str, queue: str) -> None:
    """Run `work` to its end. Each callable that it yields runs in a job of this name and queue,
    while the loop goes on; what it raises is raised in `work`.

    Raises: what `work` raises.
    """
    with contextlib.closing(work):
        try:
            step = next(work)
            while True:
                if not callable(step):
                    step = next(work)
                    continue
                try:
                    await run_in_job(step, jobs, name, queue)
                except Exception as error:
                    step = work.throw(error)
                else:
                    step = work.send(None)
        except StopIteration:
            pass


async def run_in_job(run: Callable[[], T], jobs: Jobs, name: str, queue: str) -> T:
    """Return what `run` returns in a job; raise what it raises."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type]

    jobs.submit(IoJob(name, run, finish, queue))
    return await ended
