"""Threads of a simulation that run strictly one at a time, each until it waits.

A job of the tier blocks: for the store, for a lock, for what another job loads. Here it runs in a
thread that gives control back wherever it would wait, so one seed always gives one order, and
events of other brokers come between two calls of the store.

`JobLock` and `JobFuture` stand for the lock of manifests and the future of the chunk cache while
`simulated_waits` is in force.
"""

from __future__ import annotations

import _thread
import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from kqueue.tier import chunks, manifest


class Killed(BaseException):
    """The process of the job has ended; no `Exception`, so that code under test lets it pass."""


class JobThread:
    """Runs `run` step by step.

    Attributes:
        is_over: `run` has ended. result, error: how.
    Args: wake: called, in any of the threads, when `step` should be called again.
    """

    current: JobThread | None = None

    def __init__(self, run: Callable[[], Any], wake: Callable[[JobThread], None]) -> None:
        self.is_over = self._is_killed = self._has_begun = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._run = run
        self._wake = wake
        self._turn, self._back = _thread.allocate_lock(), _thread.allocate_lock()
        self._turn.acquire()
        self._back.acquire()

    def step(self) -> None:
        """Go on until the job waits or ends; called outside of jobs."""
        assert JobThread.current is None
        if self.is_over:
            return
        JobThread.current = self
        if self._has_begun:
            self._turn.release()
        else:
            self._has_begun = True
            _thread.start_new_thread(self._main, ())
        self._back.acquire()
        JobThread.current = None

    def kill(self) -> None:
        """End the job where it waits."""
        self._is_killed = True
        if self._has_begun:
            while not self.is_over:
                self.step()
        self.is_over = True

    def wake(self) -> None:
        """Let the job look again whether it may go on."""
        self._wake(self)

    def wait(self) -> None:
        """Give control back, until the next step; called by the job. It may be for nothing: look
        whether what is waited for has come. Raises: Killed.
        """
        if not self._is_killed:
            self._back.release()
            self._turn.acquire()
        if self._is_killed:
            raise Killed

    def _main(self) -> None:
        try:
            self.result = self._run()
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._back.release()


def wait_until(holds: Callable[[], bool], register: Callable[[JobThread], None]) -> None:
    """Wait in a job until a condition holds; `register` is called with the job before each wait."""
    while not holds():
        job = JobThread.current
        assert job is not None, "only jobs may wait"
        register(job)
        job.wait()


class JobLock:
    """A lock that one job may take several times, as `RLock`."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._waiting: list[JobThread] = []

    def __enter__(self) -> None:
        me = JobThread.current or self
        wait_until(lambda: self._owner in (None, me), self._waiting.append)
        self._owner = me
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            waiting, self._waiting = self._waiting, []
            for job in waiting:
                job.wake()


class JobFuture:
    """What a job waits for that another one loads, as `Future`."""

    def __init__(self) -> None:
        self._is_done = False
        self._result: Any = None
        self._error: Exception | None = None
        self._waiting: list[JobThread] = []

    def __class_getitem__(cls, item: object) -> type[JobFuture]:
        return cls

    def set_result(self, result: Any) -> None:
        self._result = result
        self._end()

    def set_exception(self, error: Exception) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._is_done = True
        for job in self._waiting:
            job.wake()

    def result(self) -> Any:
        wait_until(lambda: self._is_done, self._waiting.append)
        if self._error is not None:
            raise self._error
        return self._result


@contextlib.contextmanager
def simulated_waits() -> Iterator[None]:
    """Let jobs wait for each other here, and not in the operating system."""
    with patch.object(manifest, "RLock", JobLock), patch.object(chunks, "Future", JobFuture):
        yield
