"""Long work leaves the owner thread as a job; its result comes back to the owner thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class IoJob(Generic[T]):
    """Work that waits on a disk: `run` in a worker thread, then `finish(result, None)` or
    `finish(None, error)` on the owner thread.

    `run` touches nothing that the owner thread changes. `name` appears in logs and watchdogs.
    `queue`: what it waits for, such as a data folder's `Storage.location`; jobs of one queue never
    wait for those of another.
    """

    name: str
    run: Callable[[], T]
    finish: Callable[[T | None, BaseException | None], None]
    queue: str = ""


@dataclass(slots=True)
class CpuJob(Generic[T]):
    """Work that keeps a core busy: `task` in a process of its own, then `finish` as of an `IoJob`.

    `task` can be pickled (an object of a class at the top of a module, with `__call__`), and so can
    its result; it knows of the broker only what it carries, and touches files that nobody changes.
    `shared` False: those files are in this process's memory, so it runs in a thread of it, which
    can only be asked to end: by `task.cancel()`, from another thread, if the task has that. A job
    that is cut short by the end of the broker finishes with JobCancelled.
    """

    name: str
    task: Callable[[], T]
    finish: Callable[[T | None, BaseException | None], None]
    shared: bool = True


class Jobs(Protocol):
    """Whoever runs jobs: the server's threads and processes; in simulation, a list that the test
    steps through.
    """

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        """Take the job; `finish` is called later, never from within `submit`."""
        ...
