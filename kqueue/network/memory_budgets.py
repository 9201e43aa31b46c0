"""Memory that clients hold: answers they have not taken, over all connections, and who gives way
when memory is short.

Requests have a `RequestBudget` (`server.limits`). Both are enforced alike: over the limit nobody begins to
use more, and the connections that would hold theirs the longest at their present rate are closed,
until half of the limit is free. A rate counts, not a sign of life: a peer that takes a few bytes
now and then gives way as one that takes none.
"""

from __future__ import annotations

import math
import os
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kqueue.network.connection_quotas import BudgetWaiter

if TYPE_CHECKING:
    from kqueue.network.session import Session

SAMPLE_MS = 1000
SAMPLES_MIN = 2
"""A rate is known after so many samples; a connection that is younger is not closed for being slow.
"""
OWED_PART = 4
"""A connection begins requests only while it is owed less than this part of what is free, so some
is always left for others.
"""
SHORT_PART = 4
"""Memory is short when less than this part of the limit is free."""
T = TypeVar("T")


class ResponseBudget:
    """Bytes of answers in memory that clients have not taken, over all connections, against
    `limit`.

    A connection that is owed nothing may begin a request while anything is free; one that is owed
    much must leave room for others. `free` is what is left of the limit; below 0 where a last
    answer was larger. `later` is called with a function that is to be called in the loop's next
    turn.
    """

    def __init__(self, limit: int, later: Callable[[Callable[[], None]], object]) -> None:
        self.limit = limit
        self.used = 0
        self.free = limit
        self._later = later
        self._denied: dict[BudgetWaiter, None] = {}

    @property
    def is_short(self) -> bool:
        """Whether those who are slow to take theirs are to give way."""
        return self.free * SHORT_PART < self.limit

    def denies(self, owed: int) -> bool:
        """Whether a connection that is owed `owed` bytes may begin no request."""
        return owed * OWED_PART >= self.free

    def wait(self, who: BudgetWaiter) -> None:
        """Call `who.go_on` when something has become free; for those who are owed nothing, and so
        would not come back by themselves.
        """
        self._denied[who] = None

    def change(self, by: int) -> None:
        """So many bytes more, or fewer, are owed."""
        self.used += by
        self.free -= by
        if self._denied and self.free > 0:
            denied, self._denied = self._denied, {}
            self._later(lambda: _go_on(denied))

    def forget(self, who: BudgetWaiter) -> None:
        self._denied.pop(who, None)


def _go_on(denied: Iterable[BudgetWaiter]) -> None:
    for who in denied:
        who.go_on()


class ThroughputMeter:
    """Bytes per second over the last seconds, from samples of a total."""

    __slots__ = ("_samples", "_total", "_total_ms", "rate")

    def __init__(self, total: int, now_ms: float) -> None:
        self._total, self._total_ms = total, now_ms
        self._samples = 0
        self.rate = 0.0

    def sample(self, total: int, now_ms: float) -> None:
        elapsed_ms = now_ms - self._total_ms
        if elapsed_ms < SAMPLE_MS:
            return
        rate = (total - self._total) * 1000 / elapsed_ms
        self.rate = (self.rate + rate) / 2 if self._samples else rate
        self._total, self._total_ms = total, now_ms
        self._samples += 1

    def holding(self, held: int, left: int) -> MemoryHolding | None:
        """Of one that holds `held` bytes until `left` more have gone through; None: its rate is not
        known yet.
        """
        if self._samples < SAMPLES_MIN:
            return None
        return MemoryHolding(held, left, self.rate, left / self.rate if self.rate > 0 else math.inf)


class MemoryHolding(NamedTuple):
    """What a connection holds, in bytes; `left` bytes at `rate` bytes per second are between it and
    the end, in `seconds`.
    """

    held: int
    left: int
    rate: float
    seconds: float


def select_slowest(sessions: Iterable[Session], holding_of: Callable[[Session], MemoryHolding | None], excess: int, max_s: float) -> list[
    tuple[Session, MemoryHolding]
]:  # fmt: skip
    """Those to close so that `excess` bytes become free: the select_slowest first, and none that is done
    within `max_s`.
    """
    slow = [
        (session, holding)
        for session in sessions
        if (holding := holding_of(session)) is not None and holding.seconds > max_s and holding.held > 0
    ]
    slow.sort(key=lambda one: (one[1].seconds, one[1].held), reverse=True)
    chosen = []
    for session, holding in slow:
        if excess <= 0:
            break
        excess -= holding.held
        chosen.append((session, holding))
    return chosen


def unread_bytes(sock: socket.socket) -> int:
    """Bytes that have come and were not received yet; 0 where the system can't say."""
    try:
        import fcntl
        import termios

        answer = fcntl.ioctl(sock, termios.FIONREAD, b"\0\0\0\0")
    except (ImportError, OSError):
        return 0
    return int.from_bytes(answer, sys.byteorder)


def machine_bytes(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Memory that this process may use: the machine's, or less in a container; None where the
    system can't say.
    """
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(size, int(limit_file.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return size


def within_memory(wanted: int, memory: int | None) -> int:
    """`wanted` bytes, or an eighth of the memory if that is less."""
    return wanted if memory is None else min(wanted, max(1, memory // 8))
