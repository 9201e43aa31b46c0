"""What keeps a broker upright among clients that are many, greedy or hostile: counts, budgets, and
lines in the log.

Nothing here knows a socket: each class is a rule with numbers, and a clock that is given.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Protocol

from kqueue.base.clock import Clock

FILES_RESERVED_MIN = 64


def open_files_max() -> int | None:
    """How many files this process may have open; None where the system sets no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def connections_max_within(wanted: int, open_files_max: int | None) -> int:
    """How many connections may be open where the system allows `open_files_max` files (None: no
    limit): a quarter is left to logs.
    """
    if open_files_max is None:
        return wanted
    return min(wanted, max(1, open_files_max - max(FILES_RESERVED_MIN, open_files_max // 4)))


class ConnectionQuotas:
    """How many connections there may be: in all, and from one address (or from each of
    `overrides`).
    """

    def __init__(self, total_max: int, per_address_max: int, overrides: Mapping[str, int]) -> None:
        self.total_max = total_max
        self._per_address_max = per_address_max
        self._overrides = dict(overrides)
        self._by_address: Counter[str] = Counter()
        self.total = 0

    def admit(self, address: str) -> str | None:
        """Count one connection in; or say, in words, which limit stands against it."""
        if self.total >= self.total_max:
            return f"there are {self.total} connections already (max.connections)"
        allowed = self._overrides.get(address, self._per_address_max)
        if self._by_address[address] >= allowed:
            return (
                f"there are {self._by_address[address]} connections from its address already (max.connections.per.ip)"
            )
        self._by_address[address] += 1
        self.total += 1
        return None

    def leave(self, address: str) -> None:
        """Count one admitted connection out."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class RateLimiter:
    """At most `per_second` events a second on average, and no more than one second's worth at once
    (at least one).
    """

    def __init__(self, per_second: float, clock: Clock, burst: float | None = None) -> None:
        self._per_ms = per_second / 1000
        self._burst = max(1.0, per_second if burst is None else burst)
        self._clock = clock
        self._stored = self._burst
        self._seen_ms = clock.monotonic_ms()

    def wait_ms(self) -> float:
        """Milliseconds until there is room for one more event; 0 if there is now."""
        now_ms = self._clock.monotonic_ms()
        self._stored = min(self._burst, self._stored + (now_ms - self._seen_ms) * self._per_ms)
        self._seen_ms = now_ms
        return max(0.0, (1 - self._stored) / self._per_ms)

    def count(self) -> None:
        """One event happened."""
        self._stored -= 1


class ClientLog:
    """Log lines that clients can cause, so many a second and no more: a hostile one can't fill the
    disk with them.

    Each address has its own allowance, so that the noise of one does not hide the others; all
    together have one too. What was left out is counted in the next line.
    """

    ADDRESSES_MAX = 1000

    def __init__(self, logger: logging.Logger, clock: Clock, *, per_second: float = 10, burst: float = 100) -> None:
        self._logger = logger
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._all = RateLimiter(per_second * 10, clock, burst * 10)
        self._by_address: OrderedDict[str, RateLimiter] = OrderedDict()
        self._left_out = 0

    def say(self, level: int, address: str, message: str, *args: object, error: BaseException | None = None) -> None:
        """Log one line about the client at `address` (host:port), with a traceback where `error` is
        given.
        """
        rate = self._rate_of(address.rpartition(":")[0])
        if rate.wait_ms() or self._all.wait_ms():
            self._left_out += 1
            return
        rate.count()
        self._all.count()
        if self._left_out:
            message += " (%d lines like this were left out)"
            args = (*args, self._left_out)
            self._left_out = 0
        self._logger.log(level, message, *args, exc_info=error)

    def _rate_of(self, host: str) -> RateLimiter:
        rate = self._by_address.pop(host, None) or RateLimiter(self._per_second, self._clock, self._burst)
        self._by_address[host] = rate
        if len(self._by_address) > self.ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return rate


class BudgetWaiter(Protocol):
    """A connection that waits for room in a `RequestBudget`."""

    def go_on(self) -> None: ...


class RequestBudget:
    """Bytes of requests that are still arriving, or wait, over all connections, against one limit
    (None: no limit).

    What is counted is what has arrived, not what a length promises. Over the limit, whoever asks
    waits; one is always let through, so that requests that are half there can't block each other
    for good.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: OrderedDict[BudgetWaiter, None] = OrderedDict()
        self._privileged: BudgetWaiter | None = None

    @property
    def crowded(self) -> bool:
        """Whether someone waits for room."""
        return bool(self._waiting)

    def take(self, count: int) -> None:
        self.used += count

    def may_go_on(self, who: BudgetWaiter) -> bool:
        """Whether `who` may read on; if not, its `go_on` is called when there is room."""
        if self.limit is None or self.used <= self.limit or who is self._privileged:
            return True
        if self._privileged is None:
            self._privileged = who
            return True
        self._waiting[who] = None
        return False

    def give_back(self, who: BudgetWaiter, count: int) -> None:
        """`who` is done with its request (or gone): its bytes are free again, and others may go on."""
        self._waiting.pop(who, None)
        if who is self._privileged:
            self._privileged = None
        self.release(count)

    def release(self, count: int) -> None:
        """So many bytes are free again, and others may go on."""
        self.used -= count
        while self._waiting and (self._privileged is None or self.limit is None or self.used <= self.limit):
            first, _ = self._waiting.popitem(last=False)
            if self._privileged is None:
                self._privileged = first
            first.go_on()
