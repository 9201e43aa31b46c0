"""One checkpoint file of a data folder, replaced whole in jobs.

One write runs at a time; of the contents that arrive meanwhile only the newest is written. A
blocking write (`save_now`) may meet a job that has not run yet: each content has a number, and an
older one never replaces a newer one. Durability: after a crash the file is old or new.
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
    """The file `name` at the top of `storage`. Thread: owner thread.

    Args:
        jobs: None: every write blocks.
        encode: returns the bytes of a content, in the job; the content must not change any more.
        make_room: called in the job if the disk is full. True: there is room now, write again.
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
        """Write the content that `take` returns, or a later one.

        `take` is called when the write begins, so that many saves during one write cost one copy.
        `done(error or None)` is called on the owner thread when the content survives a power cut;
        at once where it does already. After an error the file may hold either content.
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
        """Write this content. Blocks. Raises: StorageFailed."""
        if self._next is not None:
            self._next = lambda: content
        if content == self._durable and not self._under_way:
            return
        self._number += 1
        self._durable = None
        self._write(self._number, content)
        self._durable = content

    def close(self) -> None:
        """Write nothing any more; jobs that have not run fail."""
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
    """Submit the job; with `jobs` None run it in the caller's thread."""
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
    """Return a callback that calls `done` at its `count`-th call, with the first error."""
    errors: list[BaseException | None] = []

    def one(error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((error for error in errors if error is not None), None))

    return one
