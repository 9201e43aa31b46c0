"""When the delayed operations of a purgatory expire: few timers for many operations.

Most operations complete long before their deadline. So for its first `TIMERLESS_MS` one with a
later deadline has no timer. After that, those that expire within the same `GROUP_MS` share one: the
first of them expires in time, and the others together at the deadline of the last. A thousand
consumers that wait wake the loop twice in `GROUP_MS` then, and not once each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.timers import Timer, Timers

TIMERLESS_MS = 100
"""An operation has no timer for so long, unless it expires earlier."""
GROUP_MS = 10
"""An operation expires late by less than this, and only where others expire at about its time."""


class Expiring:
    """An operation that `Expiry` watches, which sets both attributes.

    Attributes:
        deadline_ms: when it expires, on the monotonic clock; None: never.
        group: those that it expires with; None: it is not watched.
    """

    __slots__ = ("deadline_ms", "group")

    def __init__(self) -> None:
        self.deadline_ms: float | None = None
        self.group: ExpiryGroup[Any] | None = None


T = TypeVar("T", bound=Expiring)


class ExpiryGroup(Generic[T]):
    """Operations that expire at about the same time. `timer` None: they have none yet."""

    __slots__ = ("number", "operations", "timer")

    def __init__(self, number: int) -> None:
        self.number = number
        self.operations: dict[T, float] = {}  # their deadlines
        self.timer: Timer | None = None


class Expiry(Generic[T]):
    """The deadlines of the operations of one purgatory.

    Args:
        expired: called with operations whose time is over, at least one. They are not watched any
            more.
    """

    __slots__ = ("_clock", "_expired", "_groups", "_timerless", "_timerless_until_ms", "_timers")

    def __init__(self, timers: Timers, clock: Clock, expired: Callable[[list[T]], None]) -> None:
        self._timers = timers
        self._clock = clock
        self._expired = expired
        self._groups: dict[int, ExpiryGroup[T]] = {}
        self._timerless: ExpiryGroup[T] = ExpiryGroup(-1)
        self._timerless_until_ms: float | None = None  # None: no operation is in `_timerless`

    def watch(self, operation: T, deadline_ms: float | None) -> None:
        """Expire `operation` at `deadline_ms` of the monotonic clock in place of its deadline
        before; None: never.
        """
        operation.deadline_ms = deadline_ms
        if operation.group is not None:
            self.forget(operation)
        if deadline_ms is None:
            return
        until_ms = self._timerless_until_ms
        if until_ms is None:
            until_ms = self._timerless_until_ms = self._clock.monotonic_ms() + TIMERLESS_MS
            self._timers.at(until_ms, self._end_timerless)
        if deadline_ms > until_ms:
            group = operation.group = self._timerless
            group.operations[operation] = deadline_ms
        else:
            self._add_to_group(operation, deadline_ms)

    def forget(self, operation: T) -> None:
        """Do not expire `operation`, if it is watched."""
        group = operation.group
        if group is None:
            return
        operation.group = None
        del group.operations[operation]
        if group.timer is not None and not group.operations:
            group.timer.cancel()
            del self._groups[group.number]

    def _end_timerless(self) -> None:
        """Find groups for the operations that have waited without a timer."""
        timerless, self._timerless, self._timerless_until_ms = self._timerless, ExpiryGroup(-1), None
        for operation, deadline_ms in timerless.operations.items():
            self._add_to_group(operation, deadline_ms)

    def _add_to_group(self, operation: T, deadline_ms: float) -> None:
        number = int(deadline_ms // GROUP_MS)
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = ExpiryGroup(number)
        operation.group = group
        group.operations[operation] = deadline_ms
        if group.timer is None or deadline_ms < group.timer.deadline_ms:
            self._set_timer(group, deadline_ms)

    def _set_timer(self, group: ExpiryGroup[T], deadline_ms: float) -> None:
        if group.timer is not None:
            group.timer.cancel()
        group.timer = self._timers.at(deadline_ms, partial(self._expire, group, deadline_ms))

    def _expire(self, group: ExpiryGroup[T], now_ms: float) -> None:
        operations = group.operations
        expired = [operation for operation, deadline_ms in operations.items() if deadline_ms <= now_ms]
        for operation in expired:
            operation.group = None
            del operations[operation]
        if operations:
            self._set_timer(group, max(operations.values()))
        else:
            del self._groups[group.number]
        if expired:
            self._expired(expired)
