"""Deferred appends: batches whose records take long to check are appended off their request's turn.

Each partition has one queue while such appends exist, so that appends keep their order. One
`AppendScheduler` runs the queues of a broker: a slice per turn of the event loop, and decompression
and recompression in threads. A partition has one of those under way, so partitions take turns.

`AppendScheduler._resume` is the loop: the end of each slice, job or computation calls it again,
until the work returns or raises. Only then does the queue start the next append.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import QueuedCall, SlicedWork, run_slice
from kqueue.broker.purgatory import Purgatory

T = TypeVar("T")
SLICE_MS = 4
JOB_QUEUE = "records"
HELD_BYTES_MAX = 64 * 1024 * 1024
COMPUTATIONS_MAX = max((os.cpu_count() or 1) - 1, 1)
"""Computations at once: a core is left to the owner thread, and memory holds as many decompressed
batches.
"""
logger = logging.getLogger("kqueue.broker")


_Resume = Callable[[Any, BaseException | None], None]


class _Task(NamedTuple):
    work: SlicedWork[Any]
    promise: Promise[Any]
    on_end: Callable[[], None]


class AppendScheduler:
    """Runs the deferred appends of one broker. Belongs to the owner thread."""

    def __init__(
        self, purgatory: Purgatory, jobs: Jobs, clock: Clock, computations_max: int = COMPUTATIONS_MAX
    ) -> None:
        self._purgatory = purgatory
        self._jobs = jobs
        self._clock = clock
        self._computations_max = computations_max
        self._computing = 0
        self._to_compute: deque[tuple[Callable[[], Any], _Resume]] = deque()
        self.held_bytes = 0

    def reserve(self, size: int) -> None:
        """Count bytes that an append holds until it ends.

        Raises: RequestTimedOut: more than `HELD_BYTES_MAX` would be held; producers retry it.
        """
        # One append of any size is let in where nothing else is held, else it could never run.
        if self.held_bytes and self.held_bytes + size > HELD_BYTES_MAX:
            raise RequestTimedOut(
                f"{self.held_bytes} bytes of records wait to be read already, and {HELD_BYTES_MAX} may"
            )
        self.held_bytes += size

    def start(self, work: SlicedWork[T], promise: Promise[T], on_end: Callable[[], None]) -> None:
        """Run `work` from a later turn on; then settle and wake `promise`, and call `on_end`."""
        self._purgatory.run_in_later_turn(partial(self._resume, _Task(work, promise, on_end), None, None))

    def _resume(self, task: _Task, sent: Any, error: BaseException | None) -> None:
        try:
            computation = run_slice(task.work, self._clock, SLICE_MS, sent=sent, error=error)
        except StopIteration as end:
            task.promise.resolve(end.value)
        except Exception as failure:
            if not isinstance(failure, KqueueError):
                events.INTERNAL_ERROR.log(logger, "a deferred append failed unexpectedly", exc_info=True)
            # Whatever it was, the promise is settled and the queue goes on: a producer must not
            # wait for ever, nor the appends behind it.
            task.promise.fail(failure if isinstance(failure, KqueueError) else KqueueError(repr(failure)))
        else:
            resume = partial(self._resume, task)
            if isinstance(computation, QueuedCall):
                self._jobs.submit(IoJob("disk work between appends", computation.run, resume, computation.queue))
            elif callable(computation):
                self._compute(computation, resume)
            else:
                self._purgatory.run_in_later_turn(partial(resume, None, None))
            return
        self._purgatory.wake(task.promise)
        task.on_end()

    def _compute(self, computation: Callable[[], Any], resume: _Resume) -> None:
        if self._computing >= self._computations_max:
            self._to_compute.append((computation, resume))
            return
        self._computing += 1

        def finish(result: Any, error: BaseException | None) -> None:
            self._computing -= 1
            # The next one starts before this result is used: the cores stay busy while the owner
            # thread appends.
            if self._to_compute:
                self._compute(*self._to_compute.popleft())
            resume(result, error)

        self._jobs.submit(IoJob("records of a batch", computation, finish, JOB_QUEUE))


class AppendQueue:
    """The deferred appends of one partition, run one after another. `on_empty`: called after the
    last one.
    """

    __slots__ = ("_on_empty", "_queue", "_scheduler")

    def __init__(self, scheduler: AppendScheduler, on_empty: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._on_empty = on_empty
        self._queue: deque[tuple[SlicedWork[Any], Promise[Any], int]] = deque()

    def add(self, work: SlicedWork[T], size: int = 0) -> Promise[T]:
        """Run `work` after all that was added before; its end settles and wakes the promise.

        Args:
            size: bytes reserved with `AppendScheduler.reserve`; the end of `work` releases them.
        """
        promise: Promise[T] = Promise()
        self._queue.append((work, promise, size))
        if len(self._queue) == 1:
            self._start_first()
        return promise

    def _start_first(self) -> None:
        work, promise, _ = self._queue[0]
        self._scheduler.start(work, promise, self._end_first)

    def _end_first(self) -> None:
        self._scheduler.held_bytes -= self._queue.popleft()[2]
        if self._queue:
            self._start_first()
        else:
            self._on_empty()
