"""What a handler knows of a request besides its body, and how it waits for a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

T = TypeVar("T")
R = TypeVar("R")

CHANGE_WAIT_MS_MIN = 1_000
"""How long a change may take to reach the disk, however short the time is that its client gives."""


@dataclass(slots=True)
class RequestContext:
    """One request's surroundings.

    `client_host` is written as Kafka writes it (``/127.0.0.1``). `listener` names the listener that
    the request came through. `connection` is an opaque identity: the same for all requests of one
    connection, never that of another.
    """

    broker: Broker
    api_version: int
    client_id: str | None = None
    client_host: str = ""
    listener: str = "PLAINTEXT"
    connection: object = None

    def endpoint(self) -> tuple[str, int]:
        """Host and port that clients of this listener connect to next."""
        return self.broker.endpoints(self.listener)

    def this_node(self) -> tuple[int, str, int, str | None]:
        """Node id, host, port and rack of this broker, as clients of this listener are told them."""
        host, port = self.endpoint()
        return self.broker.node_id, host, port, self.broker.rack

    def change_deadline_ms(self, timeout_ms: int) -> float:
        """When to answer REQUEST_TIMED_OUT to a request that changes something, on the monotonic
        clock.

        Kafka completes such a request in memory before it looks at the time, so it succeeds with
        `timeout_ms` 0 too. Here it is on disk first, which takes a moment.
        """
        return self.deadline_ms(max(timeout_ms, CHANGE_WAIT_MS_MIN))

    def deadline_ms(self, timeout_ms: int) -> float:
        """`timeout_ms` from now, on the monotonic clock; a negative one is now."""
        return self.broker.clock.monotonic_ms() + max(timeout_ms, 0)


def wait_for(
    promise: Promise[T], respond: Callable[[Promise[T]], R | DelayedOperation[R]], deadline_ms: float | None = None
) -> R | DelayedOperation[R]:
    """The response to a promise: at once if it is settled, else a `DelayedOperation` for it.

    `respond(promise)` builds the response; it looks at `promise.done` first if there is a deadline
    (past which it is called with the promise unsettled), then takes `promise.result()`, which raises
    what the promise failed with.
    """
    return wait_for_all((promise,), lambda: respond(promise), deadline_ms)


def wait_for_all(
    promises: tuple[Promise[T], ...], respond: Callable[[], R | DelayedOperation[R]], deadline_ms: float | None = None
) -> R | DelayedOperation[R]:
    """Like `wait_for`, for several promises: `respond()` is called when all are settled, or at the
    deadline.
    """
    left = list(reversed(promises))

    def all_done() -> bool:
        while (
            left and left[-1].done
        ):  # those that are done are not looked at again, or a thousand would cost a million looks
            left.pop()
        return not left

    if all_done():
        return respond()
    return DelayedOperation(promises, deadline_ms, lambda expired: respond() if expired or all_done() else None)


def error_of(outcome: Promise[Any] | KqueueError | None, late: str) -> KqueueError | None:
    """What went wrong with one of several changes: refused at once, failed later, or (`late` says
    so in words) not stored in time.
    """
    if not isinstance(outcome, Promise):
        return outcome
    return outcome.error if outcome.done else RequestTimedOut(late)
