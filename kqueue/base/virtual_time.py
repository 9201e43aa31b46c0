"""Lets much time pass at once, stopping at every timer on the way: for a simulation, and for a
running broker that is pushed ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from kqueue.base.clock import VirtualClock
from kqueue.base.timers import Timers


def steps(
    timers: Timers,
    clock: VirtualClock,
    ms: float,
    *,
    run_due: Callable[[float], object] | None = None,
    parts: int | None = None,
) -> Generator[None, None, None]:
    """Let `ms` milliseconds (0 or more) pass on `clock`; at each yield the caller does what timers
    have set off: jobs, ready waits.

    Each timer runs at its own time, so one that another leads to comes at its time too, if that is
    still on the way. At the end nothing is left that is due. `run_due(now_ms)` in place of
    `timers.run_due` may deal with exceptions. `parts`: series of calls (`Timers.every`) may be late
    by such a part of the time that is left, see `Timers.coalesce_until`; None: they are not.
    """
    run_due = run_due or timers.run_due
    target_ms = clock.monotonic_ms() + ms
    yield
    if parts is not None:
        timers.coalesce_until(target_ms, parts)
    try:
        while (deadline_ms := timers.next_deadline_ms()) is not None and deadline_ms <= target_ms:
            clock.move_to(max(deadline_ms, clock.monotonic_ms()))
            run_due(clock.monotonic_ms())
            yield
        clock.move_to(max(target_ms, clock.monotonic_ms()))
    finally:
        timers.coalesce_until(None)
