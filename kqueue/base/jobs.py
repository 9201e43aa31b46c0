"""Long work leaves the owner thread as a job; its result comes back to the owner thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class IoJob(Generic[T]):
    """Work that waits on a disk: `run` in a worker thread, then `finish(result, None)` or `finish(None, error)` on the owner thread.

    `run` touches nothing that the owner thread changes. `name` appears in logs and watchdogs.
    """

    name: str
    run: Callable[[], T]
    finish: Callable[[T | None, BaseException | None], None]


class Jobs(Protocol):
    """Whoever runs jobs: the server's thread pool; in simulation, a list that the test steps through."""

    def submit(self, job: IoJob[T]) -> None:
        """Take the job; `finish` is called later, never from within `submit`."""
        ...
