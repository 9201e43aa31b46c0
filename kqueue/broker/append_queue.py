"""Work on many records that does not hold up the owner thread: one slice in a turn of the event
loop, and threads for what they can do.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import Purgatory

T = TypeVar("T")
SLICE_MS = 4
QUEUE = "records"
HELD_BYTES_MAX = 64 * 1024 * 1024
logger = logging.getLogger("kqueue.broker")


class _Run(NamedTuple):
    steps: SlicedWork[Any]
    promise: Promise[Any]
    then: Callable[[], None]


class LongWork:
    """Drives the steps of one broker. Belongs to the owner thread."""

    def __init__(self, waiting: Purgatory, jobs: Jobs, clock: Clock) -> None:
        self._purgatory = waiting
        self._jobs = jobs
        self._clock = clock
        self.held_bytes = 0

    def reserve(self, size: int) -> None:
        """Count bytes that work holds until its end. Raises RequestTimedOut, which producers retry:
        they are too many.
        """
        if self.held_bytes and self.held_bytes + size > HELD_BYTES_MAX:
            raise RequestTimedOut(
                f"{self.held_bytes} bytes of records wait to be read already, and {HELD_BYTES_MAX} may"
            )
        self.held_bytes += size

    def start(self, steps: SlicedWork[T], promise: Promise[T], then: Callable[[], None]) -> None:
        """Do the work, beginning in a later turn; at its end the promise is settled and woken, and
        `then` called.
        """
        self._purgatory.run_in_later_turn(partial(self._go_on, _Run(steps, promise, then), None, None))

    def _go_on(self, run: _Run, found: Any, error: BaseException | None) -> None:
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        try:
            todo = run.steps.send(found) if error is None else run.steps.throw(error)
            while todo is None and self._clock.monotonic_ms() < end_ms:
                todo = run.steps.send(None)
        except StopIteration as done:
            run.promise.resolve(done.value)
        except Exception as failed:
            if not isinstance(failed, KqueueError):
                logger.exception("work on records failed")
            run.promise.fail(failed if isinstance(failed, KqueueError) else KqueueError(repr(failed)))
        else:
            go_on = partial(self._go_on, run)
            if todo is None:
                self._purgatory.run_in_later_turn(partial(go_on, None, None))
            else:
                self._jobs.submit(IoJob("records of a batch", todo, go_on, QUEUE))
            return
        self._purgatory.wake(run.promise)
        run.then()


class AppendQueue:
    """Works one after another, as the appends to one partition are. `on_empty` is called when the
    last one has ended.
    """

    __slots__ = ("_on_empty", "_todo", "_work")

    def __init__(self, work: LongWork, on_empty: Callable[[], None]) -> None:
        self._work = work
        self._on_empty = on_empty
        self._todo: deque[tuple[SlicedWork[Any], Promise[Any], int]] = deque()

    def add(self, steps: SlicedWork[T], size: int = 0) -> Promise[T]:
        """Do the work after all that was added before; the promise is settled and woken at its end.

        Args: size: bytes that were reserved for it, and are given back then.
        """
        promise: Promise[T] = Promise()
        self._todo.append((steps, promise, size))
        if len(self._todo) == 1:
            self._begin()
        return promise

    def _begin(self) -> None:
        steps, promise, _ = self._todo[0]
        self._work.start(steps, promise, self._ended)

    def _ended(self) -> None:
        self._work.held_bytes -= self._todo.popleft()[2]
        if self._todo:
            self._begin()
        else:
            self._on_empty()
