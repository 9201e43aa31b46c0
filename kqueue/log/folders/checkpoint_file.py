"""One checkpoint file of a data folder, replaced whole in jobs.

One write at a time, and no older content ever follows a newer one: what comes while a write is
under way waits, and only the newest of it is written. A write that blocks (`save_now`) may meet a
job that has not run yet; the number that each content carries decides, under a lock, because the
two are in different threads. Crash: old or new, never a mixture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.storage import Storage

T = TypeVar("T")
Done = Callable[[BaseException | None], None]


class CheckpointFile(Generic[T]):
    """The file `name` at the top of `storage`. Belongs to the owner thread. `jobs` None: every
    write blocks, and is done at once.

    `make_room`: called in the job where the disk is full; True: there is more room now, and the
    write is repeated. `encode(content)` gives the bytes, in the job: a content that was given away
    is never changed.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        jobs: Jobs | None,
        encode: Callable[[T], bytes],
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self._storage = storage
        self._name = name
        self._jobs = jobs
        self._encode = encode
        self._make_room = make_room
        self._number = 0  # of the newest content
        self._durable: T | None = None  # None: not known
        self._under_way = False
        self._next: Callable[[], T] | None = None
        self._next_waiting: list[Done] = []
        self._lock = threading.Lock()
        self._written = 0  # number of the newest content on the disk; under the lock, as `_closed`
        self._closed = False

    def save(self, take: Callable[[], T], done: Done) -> None:
        """Have the content that `take` returns in the file, or one that is saved later.

        `take` is called when the write begins, so that many saves during one write cost a single
        copy. `done` is called on the owner thread once the content survives a power cut, at once
        where it does already, or with the error: then the file may hold the old content or this.
        """
        if self._under_way:
            self._next = take
            self._next_waiting.append(done)
            return
        content = take()
        if content == self._durable:
            done(None)
        else:
            self._begin(content, [done])

    def save_now(self, content: T) -> None:
        """Have this content in the file on return. Blocks. Raises StorageFailed."""
        if self._next is not None:
            self._next = lambda: content
        if content == self._durable and not self._under_way:
            return
        self._number += 1
        self._durable = None
        self._write(self._number, content)
        self._durable = content

    def close(self) -> None:
        """Nothing is written any more: jobs that have not run find the folder closed."""
        with self._lock:
            self._closed = True

    def _begin(self, content: T, waiting: list[Done]) -> None:
        self._under_way = True
        self._number += 1
        number = self._number

        def finish(_: None, error: BaseException | None) -> None:
            self._under_way = False
            if number == self._number:
                self._durable = content if error is None else None
            self._go_on()
            for done in waiting:
                done(error)

        run_or_submit(
            IoJob(f"write {self._name}", lambda: self._write(number, content), finish, self._storage.location),
            self._jobs,
        )

    def _go_on(self) -> None:
        if self._next is not None:
            take, waiting = self._next, self._next_waiting
            self._next, self._next_waiting = None, []
            self._begin(take(), waiting)

    def _write(self, number: int, content: T) -> None:
        data = self._encode(content)
        with self._lock:
            if self._closed:
                raise StorageFailed(
                    f"{self._storage.location}: {self._name} is not written: the data folder was closed"
                )
            if number < self._written:
                return  # what came later is there, and says all that this one does
            try:
                try:
                    self._storage.write_atomic(self._name, data)
                except DiskFull:
                    if not self._make_room():
                        raise
                    self._storage.write_atomic(self._name, data)
            except FileNotFoundError as error:
                raise StorageFailed(f"{self._storage.location}: {self._name} can't be written: {error}") from error
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


def all_of(count: int, done: Done) -> Done:
    """Returns what calls `done` once it was called `count` times itself, with the first error."""
    errors: list[BaseException | None] = []

    def one(error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((error for error in errors if error is not None), None))

    return one
