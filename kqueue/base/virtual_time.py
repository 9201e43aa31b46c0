"""Advances a clock from deadline to deadline: for simulations, and for `advance` of a running
broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from kqueue.base.clock import VirtualClock
from kqueue.base.timers import Timers


class AllTimers:
    """The timers of several owners, which are advanced together."""

    def __init__(self, parts: Sequence[Timers]) -> None:
        self._parts = parts

    def next_deadline_ms(self) -> float | None:
        """See `Timers.next_deadline_ms`."""
        deadlines = (timers.next_deadline_ms() for timers in self._parts)
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)

    def coalesce_until(self, target_ms: float | None, parts: int = 1) -> None:
        """See `Timers.coalesce_until`."""
        for timers in self._parts:
            timers.coalesce_until(target_ms, parts)

    def run_due(self, now_ms: float) -> None:
        """Run the timers that are due at `now_ms`."""
        for timers in self._parts:
            timers.run_due(now_ms)


def advance_in_steps(
    timers: Timers | AllTimers,
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
