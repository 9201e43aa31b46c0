"""Long work as a generator, so that it can be done in parts: who drives it decides when it goes on,
and in which thread.

It yields None where others may have their turn, or a callable that computes without touching shared
state, such as a decompression: that may run in another thread, and its result is sent back. It
returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
SlicedWork = Generator[Callable[[], Any] | None, Any, T]


def here(steps: SlicedWork[T]) -> Generator[None, None, T]:
    """The same work, in which what could run in another thread is done in place."""
    try:
        todo = next(steps)
        while True:
            if todo is None:
                yield None
                todo = steps.send(None)
                continue
            try:
                found = todo()
            except Exception as error:
                todo = steps.throw(error)
            else:
                todo = steps.send(found)
    except StopIteration as done:
        result: T = done.value
        return result


def run_to_end(steps: SlicedWork[T]) -> T:
    """Do all of it in one go. Returns and raises what `steps` does."""
    work = here(steps)
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
