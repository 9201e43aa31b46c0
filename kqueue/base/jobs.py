"""Jobs: work that leaves the owner thread and reports its result back to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class IoJob(Generic[T]):
    """Work that waits for a disk: `run` in a worker thread, then `finish` on the owner thread.

    Attributes:
        name: for logs and watchdogs.
        run: must not touch what the owner thread changes.
        finish: called with `(result, None)` or `(None, error)`.
        queue: what `run` waits for, such as the `Storage.location` of a data folder. Jobs of one
            queue never wait for those of another.
    """

    name: str
    run: Callable[[], T]
    finish: Callable[[T | None, BaseException | None], None]
    queue: str = ""


@dataclass(slots=True)
class CpuJob(Generic[T]):
    """Work that keeps a core busy: `task` in its own process, then `finish` as for an `IoJob`.

    If the broker stops first, the job finishes with JobCancelled.

    Attributes:
        task: an object of a module-level class with `__call__`. It and its result can be pickled.
            It knows of the broker only what it carries, and touches files that do not change.
        shared: whether another process sees those files. If False they are in this process's
            memory, and `task` runs in a thread. A thread can't be ended: the broker calls
            `task.cancel()`, if there is one, from another thread.
    """

    name: str
    task: Callable[[], T]
    finish: Callable[[T | None, BaseException | None], None]
    shared: bool = True


class Jobs(Protocol):
    """Runs jobs: `workers.executor` in a server, `testing.stepped_jobs` in a simulation."""

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        """Queue a job. `finish` is called later, never within `submit`."""
        ...
