"""Requests handled in slices, so that other connections are served between two slices.

A handler whose work grows with its request is a generator that yields after each item and returns
the response, or a `DelayedOperation`:

    def handle(request, context):
        return in_slices(context, _handle_sliced(request, context))

The first slice runs within `in_slices`. Later slices run in later turns of the event loop.
The generator is `base.sliced_task.SlicedWork` without callables: it yields None, a pause in ms, or
a promise to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from kqueue.api.request_context import RequestContext
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork, run_slice, run_to_end
from kqueue.broker.purgatory import DelayedOperation

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")

NO_RESPONSE: Any = object()
"""Result of sliced work whose request gets no response; None would keep the operation waiting."""
SLICE_ITEMS = 1000
"""Items in one slice, at most."""
SLICE_MS = 10
"""Duration of one slice, by the broker's clock."""
ITEMS_PER_LOOK = 8
"""Items between two looks at the clock."""


def in_slices(
    context: RequestContext,
    work: SlicedWork[R | DelayedOperation[R]],
    keep: Callable[[], bool] | None = None,
    *,
    items_per_look: int = ITEMS_PER_LOOK,
) -> R | DelayedOperation[R]:
    """Return the result of `work`, or a `DelayedOperation` that runs what one slice leaves of it.

    Args:
        keep: called once if one slice does not suffice. It copies what `work` still needs of the
            request's buffer; later requests of the connection then wait. If it returns False, all
            of `work` runs now: it must not wait for a promise then.
        items_per_look: items between two looks at the clock; 1 where an item can take a ms.
    Raises: what `work` raises. If the client disconnects first, `work` is closed unfinished.
    """
    work = _delegated(work)
    slices = _Slices(context, work, items_per_look)
    response = slices.run_next(False)
    if response is None and keep is not None and not keep():
        response = run_to_end(work)
    return (
        DelayedOperation((slices,), None, slices.run_next, in_order=keep is not None) if response is None else response
    )


def _delegated(work: SlicedWork[R]) -> SlicedWork[R]:
    """Return `work` in a generator that closes it when dropped: compiled ones run their `finally`
    only when they are closed.
    """
    return (yield from work)


def collect(function: Callable[[T], U], items: Iterable[T]) -> SlicedWork[list[U]]:
    """Return `[function(item) for item in items]`, yielding after each item."""
    results = []
    for item in items:
        results.append(function(item))
        yield None
    return results


def settled(promise: Promise[T]) -> SlicedWork[T]:
    """Return the result of `promise` once it is settled. Raises: its error."""
    if not promise.done:
        yield promise
    return promise.result()


class _Slices(Generic[R]):
    """Unfinished work of one request; the key of its own delayed operation."""

    __slots__ = ("_context", "_items_per_look", "_work")

    def __init__(self, context: RequestContext, work: SlicedWork[R | DelayedOperation[R]], items_per_look: int) -> None:
        self._context = context
        self._work = work
        self._items_per_look = items_per_look

    def run_next(self, expired: bool) -> R | DelayedOperation[R] | None:
        """Run one slice; return None if more follow. `expired`: run all that remains."""
        scheduler = self._context.broker.scheduler
        if expired:
            return run_to_end(self._work)
        try:
            pause_ms = run_slice(
                self._work, scheduler.clock, SLICE_MS, steps_max=SLICE_ITEMS, steps_per_look=self._items_per_look
            )
        except StopIteration as end:
            response: R | DelayedOperation[R] = end.value
            return response
        purgatory = scheduler.purgatory
        if isinstance(pause_ms, Promise):
            promise = pause_ms
            settled = DelayedOperation((promise,), None, lambda expired: True if promise.done else None)
            purgatory.add(settled, lambda _: purgatory.wake(self))
        elif pause_ms is None:
            purgatory.wake_in_later_turn(self)
        else:
            resume_ms = scheduler.clock.monotonic_ms() + cast(float, pause_ms)
            scheduler.timers.at(resume_ms, lambda: purgatory.wake(self))
        return None
