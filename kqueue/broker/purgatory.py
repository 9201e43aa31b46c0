"""The purgatory: delayed operations, retried when an event wakes one of their keys or time is over.

It has no event loop and belongs to the owner thread. `wake` only marks operations; `run_ready`
retries them after the request that woke them, so that no handler runs within another. Source:
Kafka's DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.timers import Timers
from kqueue.broker.expiry import Expiring, Expiry

R = TypeVar("R")


class DelayedOperation(Generic[R]):
    """The object that a handler returns instead of a response that is not complete. Source: Kafka's
    DelayedOperation.

    `try_complete(expired)` is called when one of `keys` is woken, and with True at `deadline_ms`
    (monotonic clock; None: never). It returns the response, None to stay delayed (not if expired),
    or another `DelayedOperation`, which replaces this one. It may set a new `deadline_ms`.

    `in_order`: no later request of the connection may begin before the response. `woken`: a set to
    which the keys that are woken are added, for an operation that looks at those only; None: not.
    """

    __slots__ = ("deadline_ms", "in_order", "keys", "try_complete", "woken")

    def __init__(
        self,
        keys: tuple[Hashable, ...],
        deadline_ms: float | None,
        try_complete: Callable[[bool], R | DelayedOperation[R] | None],
        in_order: bool = False,
        woken: set[Hashable] | None = None,
    ) -> None:
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.try_complete = try_complete
        self.in_order = in_order
        self.woken = woken


class _LaterCall(NamedTuple):
    """A call to make in a later turn."""

    run: Callable[[], None]


class WatchedOperation(Expiring):
    """One operation in the purgatory; `cancel()` it when its connection is closed."""

    __slots__ = ("_done", "_failed", "_purgatory", "is_expired", "operation", "queued")

    def __init__(
        self,
        purgatory: Purgatory,
        operation: DelayedOperation[Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None] | None,
    ) -> None:
        self.operation = operation
        self._failed = failed
        self.queued = False
        self._purgatory = purgatory
        self._done: Callable[[Any], None] | None = done
        self.is_expired = False
        self.deadline_ms, self.group = None, None  # as of `Expiring`, without its call

    @property
    def pending(self) -> bool:
        """Whether the operation is neither complete nor cancelled."""
        return self._done is not None

    def cancel(self) -> None:
        """Remove the operation without a response. Does nothing if complete."""
        self._finish()

    def _finish(self) -> Callable[[Any], None] | None:
        done, self._done = self._done, None
        if done is not None:
            self._purgatory._remove(self)
        return done


class Purgatory:
    """All delayed operations of a broker. `on_ready`, if set: called when `run_ready` is due."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._expiry: Expiry[WatchedOperation] = Expiry(timers, clock, self._expire)
        self._by_key: dict[Hashable, dict[WatchedOperation, None]] = {}
        self._ready: deque[WatchedOperation | Callable[[], None]] = deque()
        self._later: deque[Hashable | _LaterCall] = deque()
        self.on_ready: Callable[[], None] | None = None

    def add(
        self,
        operation: DelayedOperation[R],
        done: Callable[[R], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> WatchedOperation:
        """Hold `operation` until it is complete.

        Args:
            done: called once with the response, from `run_ready` or a timer, unless cancelled.
            failed: called instead with the error that `try_complete` raises.
        """
        watched = WatchedOperation(self, operation, done, failed)
        self._register(watched)
        return watched

    def _register(self, watched: WatchedOperation) -> None:
        for key in watched.operation.keys:
            self._by_key.setdefault(key, {})[watched] = None
        self._expiry.watch(watched, watched.operation.deadline_ms)

    def _expire(self, expired: list[WatchedOperation]) -> None:
        # The others with what is ready, whose runs are bounded. The failure of one does not reach
        # them there.
        for watched in expired[1:]:
            watched.is_expired = True
            if not watched.queued:
                watched.queued = True
                self._push(watched)
        self._retry(expired[0], expired=True)

    def wake(self, key: Hashable) -> None:
        """Retry the operations of `key` at the next `run_ready`."""
        watched_set = self._by_key.get(key)
        if not watched_set:
            return
        for watched in watched_set:
            if watched.operation.woken is not None:
                watched.operation.woken.add(key)
            # Once, however many events woke it: an operation on a hundred partitions is retried
            # once for a turn.
            if not watched.queued:
                watched.queued = True
                self._push(watched)

    def wake_in_later_turn(self, key: Hashable) -> None:
        """Wake `key` in a later `run_ready`, one key in each, so that other requests run between
        slices.
        """
        self._later.append(key)
        if self.on_ready is not None:
            self.on_ready()

    def run_in_later_turn(self, run: Callable[[], None]) -> None:
        """Call `run` in a later `run_ready`, in order with the keys of `wake_in_later_turn`."""
        self._later.append(_LaterCall(run))
        if self.on_ready is not None:
            self.on_ready()

    def defer(self, run: Callable[[], None]) -> None:
        """Call `run` at the next `run_ready`: work done once for all requests of a turn."""
        self._push(run)

    def run_ready(self, is_over: Callable[[], bool] | None = None) -> int:
        """Run all that is due, and what becomes due by that; return how many ran.

        Args:
            is_over: checked after the first; True ends the run.
        """
        count = 0
        if self._later:
            # One in each run: that is what divides long work into turns, between which sockets are
            # served.
            later = self._later.popleft()
            if isinstance(later, _LaterCall):
                later.run()
            else:
                self.wake(later)
            count = 1
        while self._ready and not (count and is_over is not None and is_over()):
            item = self._ready.popleft()
            count += 1
            if isinstance(item, WatchedOperation):
                item.queued = False
                expired, item.is_expired = item.is_expired, False
                self._retry(item, expired=expired)
            else:
                item()
        return count

    @property
    def ready(self) -> bool:
        """Whether `run_ready` has something to run."""
        return bool(self._ready or self._later)

    def __len__(self) -> int:
        """Return the number of operations with keys."""
        return len({watched for watched_set in self._by_key.values() for watched in watched_set})

    def _push(self, item: WatchedOperation | Callable[[], None]) -> None:
        self._ready.append(item)
        if len(self._ready) == 1 and self.on_ready is not None:
            self.on_ready()

    def _retry(self, watched: WatchedOperation, *, expired: bool) -> None:
        # It may have expired, or its connection may be closed, between `wake` and its turn.
        if watched._done is None:
            return
        try:
            response = watched.operation.try_complete(expired)
            assert response is not None or not expired, "an expired operation must complete"
        except Exception as error:
            # First, so that it is out of the purgatory whatever `failed` does.
            watched._finish()
            if watched._failed is None:
                raise
            watched._failed(error)
            return
        if isinstance(response, DelayedOperation):
            self._replace(watched, response)
        elif response is not None:
            done = watched._finish()
            if done is not None:
                done(response)
        # It may have been cancelled by what it called.
        elif watched.operation.deadline_ms != watched.deadline_ms and watched.pending:
            self._expiry.watch(watched, watched.operation.deadline_ms)

    def _replace(self, watched: WatchedOperation, operation: DelayedOperation[Any]) -> None:
        if watched.pending:
            self._remove(watched)
            watched.operation = operation
            self._register(watched)

    def _remove(self, watched: WatchedOperation) -> None:
        self._expiry.forget(watched)
        for key in watched.operation.keys:
            watched_set = self._by_key.get(key)
            if watched_set is not None:
                watched_set.pop(watched, None)
                if not watched_set:
                    del self._by_key[key]
