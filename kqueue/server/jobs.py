"""The threads and processes that run jobs, and the way of their results back to the owner thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from kqueue.base.errors import JobCancelled, JobFailed
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.server.processes import Processes

T = TypeVar("T")
logger = logging.getLogger("kqueue.server")


class ThreadJobs:
    """Runs `IoJob`s in at most `threads_max` threads of its own, each started when first needed; implements `kqueue.base.jobs.Jobs`.

    A `CpuJob` has a process of its own, and a thread that waits for it; whoever submits them takes care that they are few.
    `submit`, `cancel_cpu`, `drain` and `stop` belong to the thread of `loop`; every `finish` is called there, in the order in which the
    jobs end. The threads are daemons: an interpreter that ends without a stop does not hang on a slow disk.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads_max: int, name: str = "kqueue") -> None:
        self._loop = loop
        self._threads_max = threads_max
        self._name = name
        self._todo: SimpleQueue[IoJob[Any] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[IoJob[Any] | CpuJob[Any], Any, BaseException | None]] = SimpleQueue()
        self._processes = Processes()
        self._in_threads: dict[int, Any] = {}  # tasks that can be cancelled, by identity
        self._is_cancelled = False
        self._threads: list[threading.Thread] = []
        self._idle: asyncio.Event | None = None
        self._io_under_way = 0
        self._names: Counter[str] = Counter()
        self.under_way = 0

    @property
    def names(self) -> list[str]:
        """The names of the jobs under way, sorted."""
        return sorted(self._names)

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        self.under_way += 1
        self._names[job.name] += 1
        if isinstance(job, CpuJob):
            self._start_cpu(job)
            return
        self._io_under_way += 1
        if self._io_under_way > len(self._threads) and len(self._threads) < self._threads_max:
            self._start_thread()
        self._todo.put(job)
        if not self._threads:  # the interpreter is ending and allows no more threads: what must be flushed still is
            self._todo.put(None)
            self._work()

    def cancel_cpu(self) -> None:
        """End what runs in processes, and ask what runs in threads to end; they finish with JobCancelled.

        So does what is submitted from now on.
        """
        self._processes.cancel()
        self._is_cancelled = True
        for task in list(self._in_threads.values()):
            task.cancel()

    async def drain(self) -> None:
        """Return once no job is under way, those that `finish` calls submit included."""
        while self.under_way:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def finish_next(self, timeout_s: float) -> bool:
        """Block the loop until a job ends, and finish it; False: none did within `timeout_s` (0: do not wait)."""
        try:
            job, result, error = self._ended.get(timeout_s > 0, timeout_s)
        except Empty:
            return False
        self.under_way -= 1
        self._io_under_way -= isinstance(job, IoJob)
        self._names[job.name] -= 1
        if not self._names[job.name]:
            del self._names[job.name]
        try:
            job.finish(result, error)
        except Exception:
            logger.exception("job %s ended, but its result could not be taken in", job.name)
        if not self.under_way and self._idle is not None:
            self._idle.set()
            self._idle = None
        return True

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

    def _start_cpu(self, job: CpuJob[Any]) -> None:
        thread = threading.Thread(target=self._run_cpu, args=(job,), name=f"{self._name}-cpu", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter is ending
            self._end(job, None, JobFailed(f"no thread could be started: {error}"))

    def _work(self) -> None:
        while (job := self._todo.get()) is not None:
            self._run(job, job.run)

    def _run_cpu(self, job: CpuJob[Any]) -> None:
        self._run(job, lambda: self._processes.run(job.task) if job.shared else self._run_here(job.task))

    def _run_here(self, task: Any) -> Any:
        if hasattr(task, "cancel"):
            self._in_threads[id(task)] = task
        try:
            if self._is_cancelled:
                raise JobCancelled("the broker stops")
            return task()
        finally:
            self._in_threads.pop(id(task), None)

    def _run(self, job: IoJob[Any] | CpuJob[Any], run: Callable[[], Any]) -> None:
        result, error = None, None
        try:
            result = run()
        except BaseException as raised:  # whatever it was, the owner thread hears of it
            error = raised
        self._end(job, result, error)

    def _end(self, job: IoJob[Any] | CpuJob[Any], result: Any, error: BaseException | None) -> None:
        self._ended.put((job, result, error))
        with contextlib.suppress(RuntimeError):  # the loop was closed without a drain: nobody is left to hear of it
            self._loop.call_soon_threadsafe(self.finish_next, 0)  # finds nothing where another call was first
