"""Jobs without threads: the test says when each one runs."""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any, TypeVar

from kqueue.base.jobs import CpuJob, IoJob

T = TypeVar("T")


class SteppedJobs:
    """Holds submitted jobs until `step` or `run_all`; so a test can stop between the disk's work
    and its news.

    The task of a `CpuJob`, and its result, are pickled on the way where they would go to another
    process.
    """

    def __init__(self) -> None:
        self.pending: deque[IoJob[Any] | CpuJob[Any]] = deque()

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        self.pending.append(job)

    def step(self) -> bool:
        """Run the oldest job and deliver its result; False when there is none."""
        if not self.pending:
            return False
        job = self.pending.popleft()
        try:
            result = _run(job)
        except Exception as error:
            job.finish(None, error)
        else:
            job.finish(result, None)
        return True

    def run_all(self) -> int:
        """Run jobs, those that they submit in turn included; returns how many ran."""
        count = 0
        while self.step():
            count += 1
        return count


def _run(job: IoJob[Any] | CpuJob[Any]) -> Any:
    if isinstance(job, IoJob):
        return job.run()
    return _copy(_copy(job.task)()) if job.shared else job.task()


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
