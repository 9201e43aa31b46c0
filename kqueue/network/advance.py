"""Pushes a running broker's time ahead, and has all done that becomes due on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext

from kqueue.base.clock import OffsetClock
from kqueue.base.timers import Timers
from kqueue.base.virtual_time import steps
from kqueue.network.loop_driver import LoopDriver
from kqueue.workers.executor import JobExecutor

logger = logging.getLogger("kqueue.server")
PARTS = 20
"""Upkeep may be late by this part of the time that is left: each kind runs 100 to 250 times in 8
days, by its interval at the end.
"""
PATIENCE_S = 10.0


def push(
    ms: float,
    clock: OffsetClock,
    timers: Timers,
    ticker: LoopDriver,
    jobs: JobExecutor,
    excused: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Let `ms` milliseconds (0 or more) pass at once; returns when all that became due is done,
    what jobs then led to included.

    Blocks the loop: from one step to the next no client is heard, so what a push does depends on
    what was there when it began, and on nothing else. A client that lives sees a broker that
    paused, and a clock that jumped.

    Time stands still at each timer until what it set off is done, jobs in threads and processes
    included. One-shot timers run exactly at their times; upkeep (`Timers.every`) is late by no more
    than a twentieth of the time that was left when it was due.

    All that it waits for happens within `excused()` (see `Watchdog`): a push may hold the loop for
    long, but no timer on the way may.
    """
    began_s = time.monotonic()
    try:
        with clock.held(), closing(steps(timers, clock, ms, run_due=ticker.run_due, parts=PARTS)) as moments:
            for _ in moments:
                with excused():
                    _settle(ticker, jobs)
    finally:
        ticker.wake_anew()
    logger.info("time was pushed ahead by %.0f s, which took %.3f s", ms / 1000, time.monotonic() - began_s)


def _settle(ticker: LoopDriver, jobs: JobExecutor) -> None:
    """Run what is ready, and jobs, until neither is left."""
    ticker.run_ready()
    while ticker.has_ready or jobs.under_way:
        if not ticker.has_ready and not jobs.finish_next(PATIENCE_S):
            logger.warning("time can't go on before these jobs have ended: %s", ", ".join(jobs.names))
        ticker.run_ready()
