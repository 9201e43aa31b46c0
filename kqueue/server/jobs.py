"""The threads that run `IoJob`s, and the way of their results back to the owner thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from queue import SimpleQueue
from typing import Any, TypeVar

from kqueue.base.jobs import IoJob

T = TypeVar("T")
logger = logging.getLogger("kqueue.server")


class ThreadJobs:
    """Runs jobs in at most `threads_max` threads of its own, each started when first needed; implements `kqueue.base.jobs.Jobs`.

    `submit`, `drain` and `stop` belong to the thread of `loop`; every `finish` is called there, in the order in which the jobs end.
    The threads are daemons: an interpreter that ends without a stop does not hang on a slow disk.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads_max: int, name: str = "kqueue") -> None:
        self._loop = loop
        self._threads_max = threads_max
        self._name = name
        self._todo: SimpleQueue[IoJob[Any] | None] = SimpleQueue()
        self._ended: deque[tuple[IoJob[Any], Any, BaseException | None]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle: asyncio.Event | None = None
        self.under_way = 0

    def submit(self, job: IoJob[T]) -> None:
        self.under_way += 1
        if self.under_way > len(self._threads) and len(self._threads) < self._threads_max:
            self._start_thread()
        self._todo.put(job)
        if not self._threads:  # the interpreter is ending and allows no more threads: what must be flushed still is
            self._todo.put(None)
            self._work()

    async def drain(self) -> None:
        """Return once no job is under way, those that `finish` calls submit included."""
        while self.under_way:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def stop(self) -> None:
        """End the threads, after what they have begun and what was submitted; call `drain` first to have the results."""
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-io-{len(self._threads) + 1}", daemon=True)
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._todo.get()) is not None:
            result, error = None, None
            try:
                result = job.run()
            except BaseException as raised:  # whatever it was, the owner thread hears of it
                error = raised
            self._ended.append((job, result, error))
            with contextlib.suppress(RuntimeError):  # the loop was closed without a drain: nobody is left to hear of it
                self._loop.call_soon_threadsafe(self._finish_next)

    def _finish_next(self) -> None:
        job, result, error = self._ended.popleft()
        self.under_way -= 1
        try:
            job.finish(result, error)
        except Exception:
            logger.exception("job %s ended, but its result could not be taken in", job.name)
        if not self.under_way and self._idle is not None:
            self._idle.set()
            self._idle = None
