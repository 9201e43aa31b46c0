"""One checkpoint file of a data folder, replaced whole in jobs.

One write at a time, and no older content ever follows a newer one: what comes while a write is under way waits, and only the
newest of it is written. A write that blocks (`save_now`) may meet a job that has not run yet; the number that each content carries
decides, under a lock, because the two are in different threads. Crash: old or new, never a mixture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from kqueue.base.errors import StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.storage import Storage

T = TypeVar("T")
Done = Callable[[BaseException | None], None]


class CheckpointFile:
    """The file `name` at the top of `storage`. Belongs to the owner thread. `jobs` None: every write blocks, and is done at once."""

    def __init__(self, storage: Storage, name: str, jobs: Jobs | None) -> None:
        self._storage = storage
        self._name = name
        self._jobs = jobs
        self._number = 0  # of the newest content
        self._durable: bytes | None = None  # None: not known
        self._under_way = False
        self._next: bytes | None = None
        self._next_waiting: list[Done] = []
        self._lock = threading.Lock()
        self._written = 0  # number of the newest content on the disk; under the lock, as `_closed`
        self._closed = False

    def save(self, data: bytes, done: Done) -> None:
        """Have this content in the file, or one that is saved later.

        `done` is called on the owner thread once it survives a power cut, at once where it does already, or with the error: then
        the file may hold the old content or this.
        """
        if self._under_way:
            self._next = data
            self._next_waiting.append(done)
        elif data == self._durable:
            done(None)
        else:
            self._begin(data, [done])

    def save_now(self, data: bytes) -> None:
        """Have this content in the file on return. Blocks. Raises StorageFailed."""
        if self._next is not None:
            self._next = data
        if data == self._durable and not self._under_way:
            return
        self._number += 1
        self._durable = None
        self._write(self._number, data)
        self._durable = data

    def close(self) -> None:
        """Nothing is written any more: jobs that have not run find the folder closed."""
        with self._lock:
            self._closed = True

    def _begin(self, data: bytes, waiting: list[Done]) -> None:
        self._under_way = True
        self._number += 1
        number = self._number

        def finish(_: None, error: BaseException | None) -> None:
            self._under_way = False
            if number == self._number:
                self._durable = data if error is None else None
            self._go_on()
            for done in waiting:
                done(error)

        run_or_submit(IoJob(f"write {self._name}", lambda: self._write(number, data), finish, self._storage.place), self._jobs)

    def _go_on(self) -> None:
        if self._next is not None:
            data, waiting = self._next, self._next_waiting
            self._next, self._next_waiting = None, []
            self._begin(data, waiting)

    def _write(self, number: int, data: bytes) -> None:
        with self._lock:
            if self._closed:
                raise StorageFailed(f"{self._storage.place}: {self._name} is not written: the data folder was closed")
            if number < self._written:
                return  # what came later is there, and says all that this one does
            try:
                self._storage.write_atomic(self._name, data)
            except FileNotFoundError as error:
                raise StorageFailed(f"{self._storage.place}: {self._name} can't be written: {error}") from error
            self._written = number


def run_or_submit(job: IoJob[T], jobs: Jobs | None) -> None:
    """Submit the job; None: run it at once, in the caller's thread."""
    if jobs is not None:
        jobs.submit(job)
        return
    try:
        result = job.run()
    except Exception as error:
        job.finish(None, error)
    else:
        job.finish(result, None)
