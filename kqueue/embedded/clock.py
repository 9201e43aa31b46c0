"""The virtual time of an embedded broker, which a test can advance."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Never

from kqueue.base.clock import Clock
from kqueue.embedded.argument_checks import check_keywords, check_kind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
UNITS = ("days", "hours", "minutes", "seconds", "ms")
MEANT_UNITS = {
    "weeks": "days", "day": "days", "d": "days", "h": "hours", "hour": "hours", "m": "minutes", "minute": "minutes",
    "s": "seconds", "sec": "seconds", "second": "seconds", "milliseconds": "ms", "millis": "ms", "microseconds": "ms",
}  # fmt: skip
"""A unit of other libraries -> the one that is meant, or the nearest."""


class BrokerClock:
    """A broker's own clock. It runs like the machine's, and ahead of it by all advances.

    Thread: any.
    """

    def __init__(self, clock: Clock, advance: Callable[[float], None]) -> None:
        """`advance(ms)` advances the broker's time, and runs everything due by then."""
        self._clock = clock
        self._advance = advance

    def __repr__(self) -> str:
        return f"<the broker's clock: {self.now().isoformat(' ', 'milliseconds')}>"

    def now(self) -> datetime:
        """Return the broker's time of day in UTC, to the millisecond; also while it is stopped."""
        return EPOCH + self._clock.wall_ms() * MS

    def advance(
        self,
        /,
        delta: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
        **unknown: Never,
    ) -> None:
        """Advance the broker's time by the sum of the arguments: ``advance(days=8)``,
        ``advance(timedelta(minutes=1))``.

        Everything that is due in that time happens, in order: retention, delayed deletion,
        compaction, session timeouts and rebalances of groups, expiry of offsets and producers,
        waiting fetches, idle connections. Returns when all of it is done and its responses are
        sent.

        Precision: one-shot timers run exactly at their times. Periodic work (deletion, compaction,
        expiry) runs less often during a long advance, so that eight days take seconds. It may run
        late by a twentieth of the time that remained, and never after the end.

        Clients: they keep their own clocks, and are not served meanwhile. To the broker they were
        silent for that time. It removes a live member from its group, which joins again. It closes
        a connection in the middle of a request or response, and an idle one if
        `connections.max.idle.ms` is set (unset by default here). Timestamps of a producer's own
        clock are old by the advance: where that matters use the broker's
        (``message_timestamp_type="LogAppendTime"``) or send your own.

        Restart: time continues where it was. Another Broker on the same folder begins at the
        machine's time.

        From a coroutine: ``await broker.aio.advance(days=8)``, so that clients on the same loop are
        not blocked.

        Thread: any but the broker's own; concurrent calls run one after another.
        Raises:
            TypeError: a number without a unit: write ``advance(seconds=8)``; or another unit.
            ValueError: a negative time, or one beyond the year 9999.
            RuntimeError: the broker is not running, or the call comes from its own thread (a
                plugin's, for example), which can't wait for itself.
        """
        check_keywords("advance", unknown, UNITS, MEANT_UNITS)
        if delta is not None:
            check_kind("advance: delta", delta, timedelta, "a timedelta, or a unit: advance(days=8), advance(ms=50)")
        for unit, number in {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "ms": ms}.items():
            check_kind(f"advance: {unit}", number, (int, float), "a number")
            if not math.isfinite(number):
                raise ValueError(f"advance: {unit}={number}: expected a finite number")
        try:
            passing = (delta or timedelta()) + timedelta(
                days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms
            )
            _ = self.now() + passing  # raises beyond the last date
        except OverflowError:
            raise ValueError("the broker's time can't be advanced beyond the year 9999") from None
        if passing < timedelta():
            raise ValueError(
                f"time does not go back: expected 0 or more, found {passing / timedelta(seconds=1)} seconds"
            )
        self._advance(passing / MS)
