"""Purgatory without an event loop: who can't be answered yet leaves a `DelayedOperation`, and events wake it by
key.

Everything here runs on the owner thread. `wake` only marks; the retries run in `run_ready`, after
the request that caused them, so that no handler is ever entered from within another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.timers import Timer, Timers

R = TypeVar("R")


@dataclass(slots=True)
class DelayedOperation(Generic[R]):
    """What a handler returns instead of a response: ask again when one of `keys` is woken, or at
    `deadline_ms`.

    `retry(expired)` returns the response, or None to go on waiting; with `expired` True it must
    answer. When it returns None it may have set another `deadline_ms`, which holds from then on.
    That is on the monotonic clock; None waits for the keys alone. It may also return another
    `DelayedOperation`, which then takes the place of this one.

    `in_order`: no later request of the connection may begin meanwhile, whatever its API allows
    otherwise.
    """

    keys: tuple[Hashable, ...]
    deadline_ms: float | None
    retry: Callable[[bool], R | DelayedOperation[R] | None]
    in_order: bool = False


class _Run(NamedTuple):
    """Work of a later turn."""

    run: Callable[[], None]


class WatchedOperation:
    """One registered `DelayedOperation`; `cancel()` when nobody is left to be answered (the connection is
    gone).
    """

    __slots__ = ("_done", "_failed", "_purgatory", "_timer", "deadline_ms", "queued", "wait")

    def __init__(
        self,
        waiting: Purgatory,
        wait: DelayedOperation[Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None] | None,
    ) -> None:
        self.wait = wait
        self._failed = failed
        self.queued = False
        self._purgatory = waiting
        self._done: Callable[[Any], None] | None = done
        self._timer: Timer | None = None
        self.deadline_ms: float | None = None  # what the timer is set to

    @property
    def pending(self) -> bool:
        return self._done is not None

    def cancel(self) -> None:
        """Forget the wait without answering; twice, or after the answer, is harmless."""
        self._finish()

    def _finish(self) -> Callable[[Any], None] | None:
        done, self._done = self._done, None
        if done is not None:
            self._purgatory._remove(self)
            if self._timer is not None:
                self._timer.cancel()
        return done


class Purgatory:
    """All waits of one broker. `on_ready` (if set) is called when `run_ready` has become due."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._by_key: dict[Hashable, dict[WatchedOperation, None]] = {}
        self._ready: deque[WatchedOperation | Callable[[], None]] = deque()
        self._later: deque[Hashable | _Run] = deque()
        self.on_ready: Callable[[], None] | None = None

    def add(
        self, wait: DelayedOperation[R], done: Callable[[R], None], failed: Callable[[Exception], None] | None = None
    ) -> WatchedOperation:
        """Hold `wait`; `done(response)` is called once, from `run_ready` or from a timer, unless
        cancelled.

        `failed(error)` is called in its place when the retry raises, so that one broken wait harms
        no other.
        """
        waiter = WatchedOperation(self, wait, done, failed)
        self._register(waiter)
        return waiter

    def _register(self, waiter: WatchedOperation) -> None:
        for key in waiter.wait.keys:
            self._by_key.setdefault(key, {})[waiter] = None
        self._set_timer(waiter)

    def _set_timer(self, waiter: WatchedOperation) -> None:
        if waiter._timer is not None:
            waiter._timer.cancel()
            waiter._timer = None
        waiter.deadline_ms = waiter.wait.deadline_ms
        if waiter.deadline_ms is not None:
            waiter._timer = self._timers.at(waiter.deadline_ms, lambda: self._try(waiter, expired=True))

    def wake(self, key: Hashable) -> None:
        """Something happened at `key`: its waiters are retried at the next `run_ready`."""
        waiters = self._by_key.get(key)
        if not waiters:
            return
        for waiter in waiters:
            if not waiter.queued:
                waiter.queued = True
                self._push(waiter)

    def wake_in_later_turn(self, key: Hashable) -> None:
        """Wake `key` in a later `run_ready`, one such key in each: so long work in slices lets
        requests of others in between.
        """
        self._later.append(key)
        if self.on_ready is not None:
            self.on_ready()

    def run_in_later_turn(self, run: Callable[[], None]) -> None:
        """Call `run` once, in a later `run_ready`; takes its turn among the keys of
        `wake_in_later_turn`.
        """
        self._later.append(_Run(run))
        if self.on_ready is not None:
            self.on_ready()

    def defer(self, run: Callable[[], None]) -> None:
        """Call `run` once, at the next `run_ready`: work that is better done once for all requests
        of a turn.
        """
        self._push(run)

    def run_ready(self, is_over: Callable[[], bool] | None = None) -> int:
        """Run what is due now, what it makes due in turn included, but after the first only until
        `is_over()`; returns how many ran.
        """
        count = 0
        if self._later:
            later = self._later.popleft()
            if isinstance(later, _Run):
                later.run()
            else:
                self.wake(later)
            count = 1
        while self._ready and not (count and is_over is not None and is_over()):
            item = self._ready.popleft()
            count += 1
            if isinstance(item, WatchedOperation):
                item.queued = False
                self._try(item, expired=False)
            else:
                item()
        return count

    @property
    def ready(self) -> bool:
        return bool(self._ready or self._later)

    def __len__(self) -> int:
        """How many waits are held (those without keys, which wait for their deadline alone, not
        counted).
        """
        return len({waiter for waiters in self._by_key.values() for waiter in waiters})

    def _push(self, item: WatchedOperation | Callable[[], None]) -> None:
        self._ready.append(item)
        if len(self._ready) == 1 and self.on_ready is not None:
            self.on_ready()

    def _try(self, waiter: WatchedOperation, *, expired: bool) -> None:
        if not waiter.pending:
            return
        try:
            response = waiter.wait.retry(expired)
            assert response is not None or not expired, "a wait whose deadline has come must answer"
        except Exception as error:
            waiter._finish()
            if waiter._failed is None:
                raise
            waiter._failed(error)
            return
        if isinstance(response, DelayedOperation):
            self._replace(waiter, response)
        elif response is not None:
            done = waiter._finish()
            if done is not None:
                done(response)
        elif waiter.wait.deadline_ms != waiter.deadline_ms and waiter.pending:
            self._set_timer(waiter)

    def _replace(self, waiter: WatchedOperation, wait: DelayedOperation[Any]) -> None:
        if waiter.pending:
            self._remove(waiter)
            waiter.wait = wait
            self._register(waiter)

    def _remove(self, waiter: WatchedOperation) -> None:
        for key in waiter.wait.keys:
            waiters = self._by_key.get(key)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._by_key[key]
