"""Keeps one worker running: starts its process, and another one when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.supervisor.messages import OPEN, Failure, WorkerOrder
from kqueue.supervisor.worker_process import WorkerProcess

STEADY_S = 10.0
"""A worker that served so long is started again at once."""
RESTART_MIN_S, RESTART_MAX_S = 0.5, 30.0
logger = logging.getLogger("kqueue.server")


class WorkerFailed(KqueueError):
    """A worker can't serve, or did not stop cleanly.

    Attributes: kind: the name of the class of its error; empty: it gave none.
    """

    def __init__(self, number: int, failure: Failure) -> None:
        super().__init__(f"worker {number}: {failure.text}")
        self.kind = failure.kind


class Keeper:
    """Keeps the worker of one order running, until `stop`.

    Attributes:
        serves, is_ready: it has done so once; see `messages`.
    Thread: the event loop's.
    """

    def __init__(self, order: WorkerOrder) -> None:
        self.serves = asyncio.Event()
        self.is_ready = asyncio.Event()
        self._order = order
        self._process: WorkerProcess | None = None
        self._serves_since_s: float | None = None  # the process; None: it does not yet
        self._is_open = False
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Return once it is stopped.

        Raises: WorkerFailed: its first process can't serve or create its topics, or its last one
            did not stop cleanly.
        """
        failures = 0
        while True:
            self._serves_since_s = None
            try:
                process = self._process = await WorkerProcess.start(self._order)
            except OSError as error:
                failed: Failure | None = Failure("OSError", f"no process can be started: {error.strerror}")
            else:
                failed = await self._follow(process)
            if self._stopping.is_set():
                if failed is not None:
                    raise WorkerFailed(self._order.number, failed)
                return
            has_said_why = failed is not None and failed.kind != ""
            if not self.serves.is_set() or (has_said_why and not self.is_ready.is_set()):
                raise WorkerFailed(self._order.number, failed or Failure("", "stopped"))
            since_s = self._serves_since_s
            failures = 0 if since_s is not None and monotonic_s() - since_s >= STEADY_S else failures + 1
            await self._pause(failures, "stopped" if failed is None else failed.text)

    def open(self) -> None:
        """Let it accept from the shared sockets, in each of its processes."""
        self._is_open = True
        if self._process is not None:
            self._process.tell(OPEN)

    def stop(self) -> None:
        """Stop it cleanly; `run` returns then."""
        self._stopping.set()
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and not self._process.gone.is_set():
            events.WORKER_KILLED.log(logger, "worker %d is killed", worker=self._order.number)
            self._process.signal(signal.SIGKILL)

    async def _follow(self, process: WorkerProcess) -> Failure | None:
        """Wait for its end. Returns: why it ended; None: cleanly."""
        if self._stopping.is_set():  # while it was started
            process.signal(signal.SIGTERM)
        elif self._is_open:
            process.tell(OPEN)
        if await process.said(process.serves):
            self._serves_since_s = monotonic_s()
            self.serves.set()
        if await process.said(process.is_ready):
            self.is_ready.set()
            self._order = self._order._replace(topics={})  # those deleted later are not created again
        await process.gone.wait()
        if process.exit_status == 0 or (process.exit_status == -signal.SIGTERM and self._stopping.is_set()):
            return None  # the signal itself ends it only before it has opened anything
        return process.failure or Failure("", f"its process {process.pid} {process.end_text}")

    async def _pause(self, failures: int, why: str) -> None:
        delay_s = 0.0 if failures == 0 else min(RESTART_MIN_S * 2 ** (failures - 1), RESTART_MAX_S)
        when = f"in {delay_s:g} s" if delay_s else "now"
        events.WORKER_ENDED.log(
            logger, "worker %d: %s; it is started again %s", worker=self._order.number, reason=why, restart=when
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay_s)
