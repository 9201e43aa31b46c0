"""Clocks. Code that needs the time is given a `Clock`, so that tests can set it.

The functions here return the machine's time, also while a test of the user has replaced the
functions of `time` and `datetime` (freezegun, time-machine, `unittest.mock.patch`), and also when
kqueue is first imported meanwhile. Otherwise a frozen test would freeze the broker in its process:
no timeout would end, no group would form, and retention would delete by the test's calendar.

How each tool works, and why it does not reach these functions:

- freezegun replaces module attributes that are one of the functions of `time` or the classes of
  `datetime`. `clock_gettime` is not among them.
- time-machine replaces the C implementation of the functions of the wall clock, `clock_gettime`
  too, but not for other clocks than CLOCK_REALTIME. For that one its escape hatch is used.
- `unittest.mock.patch("time.monotonic")` replaces the attribute of the module `time`, which is
  read only once, here.

No other module of kqueue reads a clock: `tests/base/test_clock_users.py` searches for such calls.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_MACHINE: Final = "time_machine"

monotonic_s: Callable[[], float]
"""Return seconds of the machine's monotonic clock: what `time.monotonic` is on Linux."""
monotonic_ns: Callable[[], int]
"""Return nanoseconds of the machine's monotonic clock."""
_realtime_ns: Callable[[], int]
if hasattr(time, "clock_gettime"):
    monotonic_s = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    monotonic_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    _realtime_ns = partial(time.clock_gettime_ns, time.CLOCK_REALTIME)
else:  # Windows. freezegun and time-machine replace these functions, so a frozen test freezes kqueue.
    monotonic_s, monotonic_ns, _realtime_ns = time.monotonic, time.monotonic_ns, time.time_ns
_modules: Final = sys.modules


def wall_ns() -> int:
    """Return nanoseconds since 1970 UTC, by the machine's clock."""
    return _wall_ns_beside_time_machine() if TIME_MACHINE in _modules else _realtime_ns()


def wall_ms() -> int:
    """Return milliseconds since 1970 UTC, by the machine's clock."""
    return wall_ns() // 1_000_000


def utc_now() -> datetime:
    """Return the machine's time, in UTC."""
    return EPOCH + timedelta(microseconds=wall_ns() // 1000)


def sleep(seconds: float) -> None:
    """Wait, also while a test of the user has replaced `time.sleep`. Where gevent or eventlet has
    replaced the threads, other greenlets run meanwhile.
    """
    threading.Event().wait(seconds)


def _wall_ns_beside_time_machine() -> int:
    """`wall_ns` while time-machine is imported, and may travel."""
    hatch = getattr(_modules[TIME_MACHINE], "escape_hatch", None)
    if hatch is None:  # its import is under way, in another thread
        return _realtime_ns()
    while True:
        try:
            if hatch.is_travelling():
                return int(hatch.time.time_ns())
        except (RuntimeError, ValueError):  # the travel ended between the two calls
            continue
        now_ns = _realtime_ns()
        if not hatch.is_travelling():  # else the travel may have begun before the clock was read
            return now_ns


class Clock(Protocol):
    """The wall clock, which may be set, and a monotonic clock for timeouts."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC. May jump either way."""
        ...

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary start. Never decreases."""
        ...


class VirtualClock(Clock, Protocol):
    """A clock that a driver sets (see `virtual_time`)."""

    def move_to(self, monotonic_ms: float) -> None:
        """Advance both clocks until the monotonic one shows `monotonic_ms`, which is not in its
        past.
        """
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return wall_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return monotonic_ns() / 1e6


class OffsetClock:
    """The machine's clocks plus an offset, which only grows until `reset`.

    The clock runs, except within `frozen`, where only `move_to` changes it.

    Thread: `frozen` and `move_to` belong to one thread; any thread may read the clock.
    """

    def __init__(self) -> None:
        self._offset_ms = 0
        self._frozen_ms: float | None = None
        self._frozen_wall_ms = 0

    def wall_ms(self) -> int:
        return wall_ns() // 1_000_000 + self._offset_ms if self._frozen_ms is None else self._frozen_wall_ms

    def monotonic_ms(self) -> float:
        frozen_ms = self._frozen_ms
        return monotonic_ns() / 1e6 + self._offset_ms if frozen_ms is None else frozen_ms

    def reset(self) -> None:
        """Return to the machine's time. Only while no deadline by this clock is pending."""
        self._offset_ms = 0

    def move_to(self, monotonic_ms: float) -> None:
        """Advance until the monotonic clock shows `monotonic_ms`; only within `frozen`."""
        assert self._frozen_ms is not None, "the clock is running; freeze it first"
        assert monotonic_ms >= self._frozen_ms, "time does not go back"
        self._frozen_wall_ms += int(monotonic_ms) - int(self._frozen_ms)
        self._frozen_ms = monotonic_ms

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the clock. It then resumes from where `move_to` left it, or from where it would be
        without the stop, whichever is later.
        """
        # The wall clock first: the offset that is computed below from the monotonic clock then
        # never sets the wall clock back.
        self._frozen_wall_ms = self.wall_ms()
        self._frozen_ms = self.monotonic_ms()
        try:
            yield
        finally:
            offset_ms = math.ceil(self._frozen_ms - monotonic_ns() / 1e6)
            self._offset_ms = max(self._offset_ms, offset_ms)
            self._frozen_ms = None
