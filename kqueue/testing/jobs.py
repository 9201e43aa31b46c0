"""Jobs without threads: the test says when each one runs."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from kqueue.base.jobs import IoJob

T = TypeVar("T")


class SteppedJobs:
    """Holds submitted jobs until `step` or `run_all`; so a test can stop between the disk's work and its news."""

    def __init__(self) -> None:
        self.pending: deque[IoJob[Any]] = deque()

    def submit(self, job: IoJob[T]) -> None:
        self.pending.append(job)

    def step(self) -> bool:
        """Run the oldest job and deliver its result; False when there is none."""
        if not self.pending:
            return False
        job = self.pending.popleft()
        try:
            result = job.run()
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
