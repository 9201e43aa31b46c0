"""A queue of small disk tasks by key, run in jobs a slice at a time, or at once on demand.

The job and the owner thread take tasks out of one table, so each runs once. The owner waits for the
job only if the job is running that very task. Lock: `_changed` guards `_slice`, `_current` and
`_ended`, and is never held during disk work.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

from kqueue.base.jobs import IoJob, Jobs

K = TypeVar("K")
P = TypeVar("P")
SLICE = 50
"""Pieces per job: some ms of work in the thread. The owner thread closes as many logs at once, at
0.1 ms each.
"""


class KeyedTaskQueue(ABC, Generic[K, P]):
    """Tasks by key, at most one per key.

    Args: jobs: None: a task runs when it is added. queue: as of an `IoJob`.
    Thread: owner thread, except `do` and `finish_slice`.
    """

    name = "sliced work"

    def __init__(self, jobs: Jobs | None, queue: str = "") -> None:
        self._jobs = jobs
        self._queue_name = queue
        self._waiting: dict[K, P] = {}
        self._slice: dict[K, P] = {}
        self._current: K | None = None
        self._ended: list[tuple[K, P, BaseException | None]] = []
        self._changed = threading.Condition()
        self._is_running = False

    def __len__(self) -> int:
        """Return how many tasks are not applied yet."""
        with self._changed:
            return len(self._waiting) + len(self._slice) + len(self._ended) + (self._current is not None)

    def pending(self) -> list[K]:
        """Return the keys of the tasks that are not applied yet."""
        if self.is_idle:
            return []
        with self._changed:
            current = [] if self._current is None else [self._current]
            return [*self._waiting, *self._slice, *current, *(key for key, _, _ in self._ended)]

    @property
    def is_idle(self) -> bool:
        """Whether no slice is running and none is due."""
        return not self._is_running and not self.has_work()

    def add(self, key: K, piece: P) -> None:
        """Run the task soon; `applied` is called when it is done."""
        assert key not in self._waiting, key
        self._waiting[key] = piece
        if self._jobs is None:
            self.settle(key)
            self._finish_slice_now()
        else:
            self.go_on()

    def is_pending(self, key: K) -> bool:
        """Whether the key has a task that is not applied yet."""
        if self.is_idle:
            return False
        with self._changed:
            return (
                key in self._waiting
                or key in self._slice
                or key == self._current
                or any(key == ended[0] for ended in self._ended)
            )

    def settle(self, key: K) -> None:
        """Run the key's task, or wait for the job that runs it, and apply the result. Blocks."""
        piece = self._take(key)
        if piece is not None:
            self.prepare(key, piece)
            self.applied(key, piece, self._try(key, piece))
            self.go_on()

    def cancel(self, key: K) -> bool:
        """Remove the key's task. False: there is none, or it is done (and applied on return). May
        block.
        """
        return self._take(key) is not None

    def cancel_waiting(self) -> int:
        """Remove all tasks that no job has begun; return how many."""
        count = len(self._waiting)
        self._waiting.clear()
        return count

    def go_on(self) -> None:
        """Start the next slice, unless one is running or `may_start` refuses."""
        if self._jobs is None or self._is_running or not self.has_work() or not self.may_start():
            return
        self._is_running = True
        self.before_slice(self._submit)

    # --- what a subclass says

    def has_work(self) -> bool:
        """Whether another slice has work."""
        return bool(self._waiting)

    def may_start(self) -> bool:
        """Whether a slice may start now; who returns False calls `go_on` later."""
        return True

    def before_slice(self, begin: Callable[[], None]) -> None:
        """Call `begin` when the next slice may be taken, at once or later."""
        begin()

    def prepare(self, key: K, piece: P) -> None:
        """Hook: right before the task runs. Thread: owner."""

    @abstractmethod
    def do(self, key: K, piece: P) -> None:
        """Run the disk work; may raise. Thread: any."""

    def finish_slice(self) -> None:
        """Hook: after the tasks of a slice, in the job; `slice_ended` receives what it raises."""

    @abstractmethod
    def applied(self, key: K, piece: P, error: BaseException | None) -> None:
        """Hook: the task was done, or failed. Thread: owner."""

    def slice_ended(self, error: BaseException | None) -> None:
        """Hook: a slice's job has ended and its tasks are applied. Thread: owner."""

    # ---

    def _take(self, key: K) -> P | None:
        piece = self._waiting.pop(key, None)
        if piece is not None:
            return piece
        with self._changed:
            piece = self._slice.pop(key, None)
            if piece is None:
                self._changed.wait_for(lambda: self._current != key)
        # If the job ran it, its result is applied before the caller goes on, not only with the end
        # of the slice: the caller may create what the task has just deleted.
        if piece is None:
            self._apply()
        return piece

    def _submit(self) -> None:
        assert self._jobs is not None
        cut = dict(islice(self._waiting.items(), SLICE))
        for key, piece in cut.items():
            del self._waiting[key]
            self.prepare(key, piece)
        with self._changed:
            self._slice = cut
        self._jobs.submit(IoJob(self.name, self._run, self._finish, self._queue_name))

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._slice:
                    break
                key = next(iter(self._slice))
                piece = self._slice.pop(key)
                self._current = key
            error = self._try(key, piece)
            with self._changed:
                self._current = None
                self._ended.append((key, piece, error))
                self._changed.notify_all()
        self.finish_slice()

    def _try(self, key: K, piece: P) -> BaseException | None:
        try:
            self.do(key, piece)
        except Exception as error:  # a storage may be a plugin's
            return error
        return None

    def _finish(self, _: None, error: BaseException | None) -> None:
        self._is_running = False
        self._apply()
        self.slice_ended(error)
        self.go_on()

    def _finish_slice_now(self) -> None:
        try:
            self.finish_slice()
        except Exception as error:
            self.slice_ended(error)
        else:
            self.slice_ended(None)

    def _apply(self) -> None:
        with self._changed:
            ended, self._ended = self._ended, []
        for key, piece, error in ended:
            self.applied(key, piece, error)
