"""Long work on the owner thread in slices: other connections are served between them.

A handler whose work grows with its request is written as a generator that yields after each item
and returns the response (or a `DelayedOperation`):

    def handle(request, call):
        return in_slices(call, _work(request, call))

What fits into the first slice is answered at once, as by any other handler. The rest waits for
later turns of the event loop. A generator yields None, or a number of milliseconds after which it
is to be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

from kqueue.api.request_context import RequestContext
from kqueue.broker.purgatory import DelayedOperation

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")
Work = Generator[Any, None, R]

NO_ANSWER: Any = object()
"""Returned by work of a request that is not answered, once it is done: from a `DelayedOperation`, None would
mean to go on waiting.
"""
SLICE_ITEMS = 1000
"""Items in one slice, at most."""
SLICE_MS = 10
"""A slice ends after so long, by the broker's clock, which is looked at after every eighth item."""


def in_slices(
    call: RequestContext, work: Generator[Any, None, R | DelayedOperation[R]], keep: Callable[[], bool] | None = None
) -> R | DelayedOperation[R]:
    """What `work` returns, if that takes no more than a slice; else a `DelayedOperation` that goes on with it.

    Args: keep: called once if one slice does not suffice, to copy what `work` still needs of the
    request's buffer. Requests of the connection then begin in order. If it returns False, all is
    done in one slice. Raises: what `work` raises. If the client is gone before the end, `work` is
    closed where it stands.
    """
    slices = _Slices(call, work)
    response = slices.go_on(False)
    if response is None and keep is not None and not keep():
        response = run_to_end(work)
    return DelayedOperation((slices,), None, slices.go_on, in_order=keep is not None) if response is None else response


def collect(function: Callable[[T], U], items: Iterable[T]) -> Work[list[U]]:
    """`[function(item) for item in items]`, as work: `results = yield from collect(function,
    items)`.
    """
    results = []
    for item in items:
        results.append(function(item))
        yield
    return results


def run_to_end(work: Work[R]) -> R:
    """What `work` returns, in one go, without its pauses."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: R = done.value
            return result


class _Slices(Generic[R]):
    """Work under way; the key of its own wait."""

    __slots__ = ("_call", "_work")

    def __init__(self, call: RequestContext, work: Generator[None, None, R | DelayedOperation[R]]) -> None:
        self._call = call
        self._work = work

    def go_on(self, expired: bool) -> R | DelayedOperation[R] | None:
        """Do one slice; None: there is more to do, in a later turn. `expired`: do all that is left."""
        clock, work = self._call.broker.clock, self._work
        if expired:
            return run_to_end(work)
        end_ms = clock.monotonic_ms() + SLICE_MS
        try:
            for count in range(1, SLICE_ITEMS):
                pause_ms = next(work)
                if pause_ms is not None or (not count & 7 and clock.monotonic_ms() >= end_ms):
                    break
            else:
                pause_ms = next(work)
        except StopIteration as done:
            response: R | DelayedOperation[R] = done.value
            return response
        waiting = self._call.broker.purgatory
        if pause_ms is None:
            waiting.wake_in_later_turn(self)
        else:
            self._call.broker.timers.at(clock.monotonic_ms() + pause_ms, lambda: waiting.wake(self))
        return None
