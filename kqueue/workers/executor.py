"""Runs jobs in threads and processes, and their `finish` on the owner thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from queue import Empty
from typing import Any, TypeVar

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import JobCancelled, JobFailed
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.workers.job_queue import JobQueue, new_queue
from kqueue.workers.loop_pass import PASS_S
from kqueue.workers.loop_wakeup import LoopWakeup
from kqueue.workers.subprocess_runner import SubprocessRunner

T = TypeVar("T")
logger = logging.getLogger("kqueue.server")


class _Queue:
    """The jobs of one `IoJob.queue`, and its threads. Thread: the owner thread, except `todo`."""

    __slots__ = ("ending", "threads", "todo", "under_way")

    def __init__(self) -> None:
        self.todo: JobQueue = new_queue()
        self.threads: list[threading.Thread] = []
        self.ending = 0  # threads that were told to end
        self.under_way = 0


class JobExecutor:
    """Runs the `IoJob`s of each queue in at most `threads_max` threads of that queue, so that a
    slow disk delays only its own jobs. Implements `kqueue.base.jobs.Jobs`.

    A thread starts when it is first needed. Queues are few (data folders, the metadata store) and
    stay. A `CpuJob` has a process of its own, and a thread that waits for it; their submitters
    bound their number. The threads are daemons: an interpreter that ends without a stop does not
    hang on a slow disk.

    Attributes: run_pass: runs each pass over ended jobs; `LoopDriver.run_pass` in a server.
    Thread: all methods belong to the thread of `loop`. Each `finish` is called there, in the order
    in which the jobs end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads_max: int, name: str = "kqueue") -> None:
        self._loop = loop
        self._threads_max = threads_max
        self._name = name
        self._queues: dict[str, _Queue] = {}
        self._ended: JobQueue = new_queue()
        self._wakeup = LoopWakeup(loop, self._finish_some)
        self.run_pass: Callable[[Callable[[], None]], None] = _call
        self._processes = SubprocessRunner()
        self._in_threads: dict[int, Any] = {}  # tasks that can be cancelled, by identity
        self._is_cancelled = False
        self._idle: asyncio.Event | None = None
        self._next_pass: asyncio.Handle | None = None
        self._now = monotonic_s
        self._jobs: dict[int, IoJob[Any] | CpuJob[Any]] = {}  # under way, by identity

    @property
    def names(self) -> list[str]:
        """The names of the jobs under way, sorted."""
        return sorted({job.name for job in self._jobs.values()})

    @property
    def under_way(self) -> int:
        """The number of jobs that have not finished."""
        return len(self._jobs)

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        """Run `job`; its `finish` is called later, never from within `submit`."""
        self._jobs[id(job)] = job
        if isinstance(job, CpuJob):
            self._start_cpu(job)
            return
        queue = self._queues.get(job.queue)
        if queue is None:
            queue = self._queues[job.queue] = _Queue()
        queue.under_way += 1
        working = len(queue.threads) - queue.ending
        if queue.under_way > working and working < self._threads_max:
            self._start_thread(queue)
        queue.todo.put(job)
        if not queue.threads:  # the interpreter is ending and starts no more threads: flush here
            queue.todo.put(None)
            _work(queue.todo, self._run)

    def resize(self, threads_max: int) -> None:
        """Change the bound on the threads of each queue; surplus ones end after the jobs before."""
        self._threads_max = threads_max
        for queue in self._queues.values():
            alive = [thread for thread in queue.threads if thread.is_alive()]
            queue.ending -= len(queue.threads) - len(alive)
            queue.threads = alive
            for _ in range(len(alive) - queue.ending - threads_max):
                queue.todo.put(None)
                queue.ending += 1

    def cancel_cpu(self) -> None:
        """Kill the processes of CPU jobs, and cancel their tasks in threads. They finish with
        JobCancelled, and so do CPU jobs that are submitted later.
        """
        self._processes.cancel()
        self._is_cancelled = True
        for task in list(self._in_threads.values()):
            task.cancel()

    async def drain(self) -> None:
        """Return once no job is under way, including those that `finish` submits."""
        while self._jobs:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def finish_next(self, timeout_s: float) -> bool:
        """Block the loop until a job ends, and finish it.

        Args:
            timeout_s: seconds to wait; 0: do not wait.
        Returns: whether a job ended in time.
        """
        try:
            job, result, error = self._ended.get(timeout_s > 0, timeout_s or None)
        except Empty:
            return False
        del self._jobs[id(job)]
        if isinstance(job, IoJob):
            self._queues[job.queue].under_way -= 1
        try:
            job.finish(result, error)
        except Exception:
            events.INTERNAL_ERROR.log(logger, "job %s ended, but its finish failed", job=job.name, exc_info=True)
        if not self._jobs and self._idle is not None:
            self._idle.set()
            self._idle = None
        return True

    def _finish_some(self) -> None:
        """Finish ended jobs, for one pass at most, so that many do not delay the sockets."""
        if self._next_pass is None:
            self.run_pass(self._finish_pass)

    def _finish_pass(self) -> None:
        until = self._now() + PASS_S
        while not self._ended.empty() and self.finish_next(0):
            if self._now() >= until:
                self._next_pass = self._loop.call_soon(self._finish_more)
                break

    def _finish_more(self) -> None:
        self._next_pass = None
        self._finish_some()

    def stop(self, *, drop: bool = False) -> None:
        """End the threads after the jobs that were submitted; call `drain` first to get the
        results.

        Args: drop: the jobs that have not begun never do.
        """
        for queue in self._queues.values() if drop else ():
            with contextlib.suppress(Empty):
                while True:
                    queue.todo.get_nowait()
        for queue in self._queues.values():
            for _ in queue.threads:
                queue.todo.put(None)
        for queue in self._queues.values():
            for thread in queue.threads:
                thread.join()
            queue.threads.clear()
        self._wakeup.close()

    def _start_thread(self, queue: _Queue) -> None:
        number = sum(len(other.threads) for other in self._queues.values()) + 1
        thread = threading.Thread(
            target=_work, args=(queue.todo, self._run), name=f"{self._name}-io-{number}", daemon=True
        )
        with contextlib.suppress(RuntimeError):
            thread.start()
            queue.threads.append(thread)

    def _start_cpu(self, job: CpuJob[Any]) -> None:
        thread = threading.Thread(target=self._run_cpu, args=(job,), name=f"{self._name}-cpu", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter is ending
            self._end(job, None, JobFailed(f"no thread could be started: {error}"))

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
        except BaseException as raised:  # of any kind: the owner thread must get it
            error = raised
        self._end(job, result, error)

    def _end(self, job: IoJob[Any] | CpuJob[Any], result: Any, error: BaseException | None) -> None:
        self._ended.put((job, result, error))
        self._wakeup.wake()  # to no effect if another call finishes the job, or after `stop`


def _work(todo: JobQueue, run: Callable[[IoJob[Any], Callable[[], Any]], None]) -> None:
    while (job := todo.get()) is not None:
        run(job, job.run)


def _call(work: Callable[[], None]) -> None:
    work()
