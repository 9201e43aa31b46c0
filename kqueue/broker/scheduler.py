"""Runs the work of a broker: in a later turn, at a time, in slices, in a job.

    purgatory   what waits for an event, with a deadline or without
    timers      what is due at a time
    slices      work on many partitions or groups, some ms of it in each turn
    jobs        what would block: threads and processes
    wake        a call that comes from another thread

All but the jobs themselves runs on the owner thread, so no part of a broker needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.clock import Clock
from kqueue.base.jobs import Jobs
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import Purgatory

Wake = Callable[[Callable[[], None]], None]


class Scheduler:
    """The clock of a broker, and all that runs its work later.

    Attributes: wake: calls its argument on the owner thread, from any; set before the start.
    """

    def __init__(self, clock: Clock, jobs: Jobs, timers: Timers | None = None) -> None:
        """Args: timers: None: those of `clock`."""
        self.clock = clock
        self.jobs = jobs
        self.timers = timers or Timers(clock)
        self.purgatory = Purgatory(self.timers, clock)
        self.slices = SliceQueue(self.timers, clock)
        self.wake: Wake = _no_wake

    def call_after_slices(self, call: Callable[[], None]) -> None:
        """Call once all slices before are done."""
        self.slices.add(_one_step(call))


def _one_step(call: Callable[[], None]) -> SlicedWork[None]:
    call()
    yield None


def _no_wake(call: Callable[[], None]) -> None:
    raise AssertionError("nobody can call on the owner thread yet")
