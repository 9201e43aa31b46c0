"""Jobs that wait for the object store: a few at once, in threads of their own, the others in order.

A thread that a store keeps waiting is lost to all others of its pool. So copies, changes of
manifests, reads for clients and what is read ahead have a pool each, and none of them a thread of a
disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.base.jobs import IoJob, Jobs

T = TypeVar("T")


class TierPool:
    """Jobs of one kind. Thread: owner thread.

    Args:
        queue: of the jobs; each pool has another.
        threads_max: returns how many may run at once; never more than `background.threads`.
    Attributes: running: jobs under way.
    """

    def __init__(self, jobs: Jobs, queue: str, threads_max: Callable[[], int]) -> None:
        self._jobs = jobs
        self._queue = queue
        self._threads_max = threads_max
        self._waiting: deque[IoJob[Any]] = deque()
        self._is_stopped = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._waiting)

    def submit(self, name: str, run: Callable[[], T], finish: Callable[[T | None, BaseException | None], None]) -> None:
        """Run `run` in a thread, then `finish` here, as an `IoJob`; after `stop` neither."""
        if self._is_stopped:
            return

        def finished(result: T | None, error: BaseException | None) -> None:
            self.running -= 1
            try:
                finish(result, error)
            finally:
                self._start_some()

        self._waiting.append(IoJob(name, run, finished, self._queue))
        self._start_some()

    def _start_some(self) -> None:
        while self._waiting and self.running < self._threads_max():
            self.running += 1
            self._jobs.submit(self._waiting.popleft())

    def stop(self) -> None:
        """Begin no more jobs; those under way end."""
        self._is_stopped = True
        self._waiting.clear()
