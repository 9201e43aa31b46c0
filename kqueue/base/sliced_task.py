"""Sliced work: long work as a generator that a driver resumes for a few milliseconds at a time.

A generator of sliced work returns its result, and yields wherever other work may run:

    yields       the driver
    None         resumes it at any time
    a callable   runs it, in another thread if it likes, and sends back its result or raises its
                 error; the callable touches no shared state (a decompression, for example)
    a number     resumes it after so many milliseconds
    a promise    resumes it when the promise is settled (`api.slices` only)

Three drivers exist: `slice_queue.SliceQueue` (upkeep), `api.slices` (requests) and
`broker.append_queue` (appends, with callables in threads).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.promise import Promise

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueuedCall:
    """A callable to yield where it waits for a disk: `queue` as of an `IoJob`."""

    run: Callable[[], Any]
    queue: str

    def __call__(self) -> Any:
        return self.run()


SlicedWork = Generator[Callable[[], Any] | Promise[Any] | float | None, Any, T]


def run_slice(
    work: SlicedWork[Any],
    clock: Clock,
    slice_ms: float,
    *,
    steps_max: int = sys.maxsize,
    steps_per_look: int = 1,
    sent: Any = None,
    error: BaseException | None = None,
) -> Callable[[], Any] | Promise[Any] | float | None:
    """Resume `work` until the slice ends or it yields anything but None; return what it yielded.

    Args:
        slice_ms, steps_max: the slice ends at the first of the two, after one step at least.
        steps_per_look: steps between two looks at the clock.
        sent, error: outcome of the callable that `work` yielded last.
    Raises: StopIteration: `work` ended; its `value` is the result. What `work` raises.
    """
    end_ms = clock.monotonic_ms() + slice_ms
    yielded = work.send(sent) if error is None else work.throw(error)
    count = 1
    while yielded is None and count < steps_max and (count % steps_per_look or clock.monotonic_ms() < end_ms):
        yielded = next(work)
        count += 1
    return yielded


def run_in_place(work: SlicedWork[T]) -> Generator[Promise[Any] | float | None, None, T]:
    """Return the same work without callables: they run here, between two yields."""
    try:
        yielded = next(work)
        while True:
            if not callable(yielded):
                yield yielded
                yielded = next(work)
                continue
            try:
                result = yielded()
            except Exception as error:
                yielded = work.throw(error)
            else:
                yielded = work.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


def run_to_end(work: SlicedWork[T]) -> T:
    """Run all of `work` now, without its pauses. Returns and raises what `work` does."""
    in_place = run_in_place(work)
    while True:
        try:
            next(in_place)
        except StopIteration as end:
            result: T = end.value
            return result
