"""Changes of partitions that a request asks for, topic by topic, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.cluster.partition_changes import Outcomes
from kqueue.broker.purgatory import DelayedOperation

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")
Started = Promise[Outcomes] | KqueueError


def change_all(
    context: RequestContext,
    topics: Sequence[A],
    start: Callable[[A], SlicedWork[Promise[Outcomes]]],
    build: Callable[[A, Started], SlicedWork[S]],
    respond: Callable[[list[S]], R],
    timeout_ms: int,
) -> SlicedWork[R | DelayedOperation[R]]:
    """Start the changes of each topic; respond when all are stored, or after `timeout_ms`.

    Args:
        start: begins the changes of one topic; raises KqueueError, which is then its outcome.
        build: the topic's part of the response.
    """
    started: list[tuple[A, Started]] = []
    for topic in topics:
        try:
            started.append((topic, (yield from start(topic))))
        except KqueueError as error:
            started.append((topic, error.with_traceback(None)))  # it would keep the request's frames
        yield None

    def finish() -> SlicedWork[R]:
        parts = []
        for topic, outcome in started:
            parts.append((yield from build(topic, outcome)))
            yield None
        return respond(parts)

    promises = tuple(outcome for _, outcome in started if isinstance(outcome, Promise))
    return wait_for_all(promises, lambda: in_slices(context, finish()), context.change_deadline_ms(timeout_ms))


def outcomes_of(outcome: Started, count: int, late: str) -> Outcomes:
    """Return the outcome of each of a topic's `count` changes. `late`: words for what is not stored
    in time.
    """
    if not isinstance(outcome, Promise):
        return [outcome] * count
    if not outcome.done:
        return [RequestTimedOut(late)] * count
    if isinstance(outcome.error, KqueueError):
        return [outcome.error] * count
    return outcome.result()


def rows_of(
    items: Sequence[A], outcome: Started, late: str, row: Callable[[A, KqueueError | None], R]
) -> SlicedWork[list[R]]:
    """Return a row of the response for each of a topic's changes."""
    return collect(lambda pair: row(*pair), list(zip(items, outcomes_of(outcome, len(items), late), strict=True)))
