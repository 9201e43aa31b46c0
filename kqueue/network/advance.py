"""Advances the virtual time of a running broker, and runs everything that becomes due meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import OffsetClock, monotonic_s
from kqueue.base.timers import Timers
from kqueue.base.virtual_time import AllTimers, advance_in_steps
from kqueue.network.loop_driver import LoopDriver
from kqueue.workers.executor import JobExecutor

logger = logging.getLogger("kqueue.server")
PARTS = 20
"""Periodic timers may run late by this part of the remaining interval: each runs 100 to 250 times
in 8 days, depending on its period at the end.
"""
WARN_AFTER_S = 10.0


class Advanced(NamedTuple):
    """The parts of a server that move with its time."""

    timers: Timers
    driver: LoopDriver
    jobs: JobExecutor


def advance_time(
    ms: float,
    clock: OffsetClock,
    servers: Sequence[Advanced],
    suspended: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Advance `clock` by `ms` milliseconds (>= 0), and return when everything due by then is done
    in the servers that share it.

    Blocks the loop: no client is served between two steps, so the result depends only on the state
    at the start. To a client the broker seems to have paused, and its clock to have jumped.

    Time stops at each timer until all its work is done, jobs in threads and processes included.
    One-shot timers run exactly at their times. Periodic ones (`Timers.every`) run late by no more
    than a twentieth of the interval that remained when they were due.

    Args:
        suspended: context in which the work between two steps runs (see `Watchdog.suspended`): the
            whole may hold the loop for long, but no single timer may.
    """
    began_s = monotonic_s()
    timers = AllTimers([server.timers for server in servers])

    def run_due(now_ms: float) -> None:
        for server in servers:
            server.driver.run_due(now_ms)

    try:
        with clock.frozen(), closing(advance_in_steps(timers, clock, ms, run_due=run_due, parts=PARTS)) as moments:
            for _ in moments:
                with suspended():
                    _finish_work(servers)
    finally:
        for server in servers:
            server.driver.rearm()
    events.TIME_ADVANCED.log(
        logger, "time was advanced by %.0f s, which took %.3f s", advanced_s=ms / 1000, seconds=monotonic_s() - began_s
    )


def _finish_work(servers: Sequence[Advanced]) -> None:
    """Run ready operations and jobs until none is left."""
    has_run = True
    while has_run:
        has_run = False
        for _, driver, jobs in servers:
            driver.run_ready()
            while driver.has_ready or jobs.under_way:
                has_run = True
                if not driver.has_ready and not jobs.finish_next(WARN_AFTER_S):
                    events.TIME_ADVANCE_WAITING.log(
                        logger, "time cannot advance before these jobs end: %s", jobs=", ".join(jobs.names)
                    )
                driver.run_ready()
