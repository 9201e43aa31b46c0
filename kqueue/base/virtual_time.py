"""Advances a clock from deadline to deadline: for simulations, and for `advance` of a running
broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from kqueue.base.clock import VirtualClock
from kqueue.base.timers import Timers


def advance_in_steps(
    timers: Timers,
    clock: VirtualClock,
    ms: float,
    *,
    run_due: Callable[[float], object] | None = None,
    parts: int | None = None,
) -> Generator[None, None, None]:
    """Advance `clock` by `ms` >= 0, stopping at each deadline; a generator.

    At each yield the caller runs what the timers started: jobs, ready operations. Each timer runs
    at its own time, also one that another timer adds before the end. At the end no timer is due.

    Args:
        run_due: called with the time in ms in place of `timers.run_due`, e.g. to handle exceptions.
        parts: periodic timers may be late by a `parts`-th of the remaining time, see
            `Timers.coalesce_until`; None: they are exact.
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
