"""Memory budgets over all connections: bytes of requests that arrive or wait, and bytes of
responses that clients have not received.

Over a limit no connection begins to use more memory. The sweep of `connections` then closes the
connections that would hold their memory longest (`eviction`) until half of the limit is free.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from kqueue.base.config import Config
from kqueue.network.contract import BudgetWaiter

RESPONSE_SHARE: Final = 4
"""A connection begins a request only while its unsent responses take less than this part (a
quarter) of the free memory, so that some is always left for the others.
"""
SHORT_SHARE = 4
"""Memory is short when less than this part (a quarter) of the limit is free."""


class RequestBudget:
    """Bytes of requests that are arriving or wait, over all connections; `limit` None: no limit.

    Counts the bytes that arrived, not those that a length field announces. Over the limit a
    connection that asks to read on waits. One connection is always admitted, so that partial
    requests can't block each other forever.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.used = 0
        self._waiters: OrderedDict[BudgetWaiter, None] = OrderedDict()
        self._admitted: BudgetWaiter | None = None

    @property
    def has_waiters(self) -> bool:
        """Whether a connection waits for free memory."""
        return bool(self._waiters)

    def take(self, count: int) -> None:
        """Count `count` more bytes."""
        self.used += count

    def may_read(self, connection: BudgetWaiter) -> bool:
        """Return whether `connection` may read on; if not, its `resume` is called when it may."""
        if self.limit is None or self.used <= self.limit or connection is self._admitted:
            return True
        # Else ten connections with half a request each could fill the limit, and none would ever
        # end.
        if self._admitted is None:
            self._admitted = connection
            return True
        self._waiters[connection] = None
        return False

    def release_request(self, connection: BudgetWaiter, count: int) -> None:
        """Release the `count` bytes of a request that `connection` finished or dropped."""
        self._waiters.pop(connection, None)
        if connection is self._admitted:
            self._admitted = None
        self.release(count)

    def release(self, count: int) -> None:
        """Count `count` bytes less, and resume waiting connections, oldest first."""
        self.used -= count
        # One after the other, as each that reads on may use up what was released.
        while self._waiters and (self._admitted is None or self.limit is None or self.used <= self.limit):
            first, _ = self._waiters.popitem(last=False)
            if self._admitted is None:
                self._admitted = first
            first.resume()


class ResponseBudget:
    """Bytes of responses in memory that clients have not received, over all connections.

    A connection without unsent responses may begin a request while anything is free. A connection
    with many must leave memory to the others.

    Args:
        limit: bytes.
        call_soon: calls a function in the next iteration of the loop.

    `free` is the limit less `used`; negative where one last response was larger.
    """

    def __init__(self, limit: int, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.limit = limit
        self.used = 0
        self.free = limit
        self._call_soon = call_soon
        self._waiters: dict[BudgetWaiter, None] = {}

    @property
    def is_short(self) -> bool:
        """Whether so little is free that slow readers are closed."""
        return self.free * SHORT_SHARE < self.limit

    def denies(self, unsent_bytes: int) -> bool:
        """Return whether a connection with so many unsent bytes may begin no request."""
        return unsent_bytes * RESPONSE_SHARE >= self.free

    def wait(self, connection: BudgetWaiter) -> None:
        """Call `connection.resume` when memory is free; only for a connection without unsent
        responses, which nothing else would resume.
        """
        self._waiters[connection] = None

    def change(self, by: int) -> None:
        """Count `by` bytes more, or less where `by` is negative."""
        self.used += by
        self.free -= by
        if self._waiters and self.free > 0:
            waiters, self._waiters = self._waiters, {}
            # Later: this is called while a connection sends, and resuming another one begins its
            # requests.
            self._call_soon(lambda: _resume_all(waiters))

    def remove_waiter(self, connection: BudgetWaiter) -> None:
        """Resume `connection` no more."""
        self._waiters.pop(connection, None)


def _resume_all(waiters: Iterable[BudgetWaiter]) -> None:
    for connection in waiters:
        connection.resume()


def machine_bytes(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Return the memory that this process may use: the machine's, or a container's limit.

    Returns: bytes; None where the system does not report it.
    """
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(size, int(limit_file.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return size


def within_memory(limit: int, memory: int | None) -> int:
    """Return `limit`, or an eighth of `memory` if that is less; both in bytes."""
    return limit if memory is None else min(limit, max(1, memory // 8))


def memory_limit(config: Config, name: str) -> int | None:
    """Return a memory setting in bytes, its default lowered to what the machine has; None: no
    limit.
    """
    limit: int = config[name]
    if limit == -1:
        return None
    return limit if config.is_set(name) else within_memory(limit, machine_bytes())
