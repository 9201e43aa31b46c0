"""A job executor without threads: the test decides when each job runs."""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any, TypeVar

from kqueue.base.jobs import CpuJob, IoJob

T = TypeVar("T")


class SteppedJobs:
    """Queues submitted jobs until `step` or `run_all`, so that a test can stop between two jobs.

    If a `CpuJob` would run in another process, its task and its result are pickled.

    Attributes: held: jobs of an `IoJob.queue` that begins with it are kept until `release`; empty:
        none are.
    """

    def __init__(self) -> None:
        self.pending: deque[IoJob[Any] | CpuJob[Any]] = deque()
        self.held = ""
        self._kept: list[IoJob[Any] | CpuJob[Any]] = []

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        """Add a job to the end of the queue."""
        is_held = self.held and isinstance(job, IoJob) and job.queue.startswith(self.held)
        (self._kept if is_held else self.pending).append(job)

    def release(self) -> int:
        """Queue the jobs that were held, and hold no more; return their number."""
        self.held = ""
        kept, self._kept = self._kept, []
        self.pending.extend(kept)
        return len(kept)

    def step(self) -> bool:
        """Run the oldest job and deliver its result; return False if there is none."""
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
        """Run all jobs, including jobs that they submit; return the number of jobs."""
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
