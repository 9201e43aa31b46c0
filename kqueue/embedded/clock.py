"""The time of an embedded broker, which a test can push ahead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kqueue.base.clock import Clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)


class BrokerClock:
    """A broker's own clock: it runs as the machine's does, and ahead of it by all that it was
    pushed. Any thread may use it.
    """

    def __init__(self, clock: Clock, push: Callable[[float], None]) -> None:
        """`push(ms)` lets so many milliseconds pass and all happen that is due by then."""
        self._clock = clock
        self._push = push

    def __repr__(self) -> str:
        return f"<the broker's clock: {self.now().isoformat(' ', 'milliseconds')}>"

    def now(self) -> datetime:
        """The broker's time of day, with the time zone UTC; to the millisecond. Also while it does
        not run.
        """
        return EPOCH + self._clock.wall_ms() * MS

    def advance(
        self,
        delta: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> None:
        """Let time pass at once: ``advance(days=8)``, ``advance(timedelta(minutes=1))``; what is
        given is added up.

        Everything happens that would have happened in that time, in its order: retention, delayed
        deletion, compaction and its lag, session timeouts and rebalances of groups, expiry of
        offsets and producers, waits of fetches, idle connections. It returns when all of it is done
        and its answers are sent. Several threads may call it: one push follows another.

        Precision: whatever is due once runs at its very time. Upkeep that is repeated (looking for
        what is to be deleted, compacted or expired) is repeated less often on a long way, so that
        eight days don't take long: it may come late by a twentieth of the time that was left then,
        and is never later than the end.

        Clients keep their own clocks, and are not heard until all is done: to the broker they were
        silent for so long. A member that lives is put out of its group, and joins again; a
        connection in the middle of a request or of an answer is closed, an idle one if
        `connections.max.idle.ms` is set (here it is not by itself). The timestamps that a producer
        sends are those of its own clock, and so are old at once by as much as was pushed: where
        that matters use the broker's (``message_timestamp_type="LogAppendTime"``) or send your own.
        After a restart time goes on from where it was; another Broker on the same folder begins at
        the machine's time again.

        From a coroutine: ``await asyncio.to_thread(broker.clock.advance, days=8)``, so that clients
        on the same loop are not held up.

        Raises: ValueError: a negative time, or one beyond the year 9999. RuntimeError: the broker
        does not run, or the call comes from its own thread (a plugin's, say), which can't wait for
        itself.
        """
        try:
            passing = (delta or timedelta()) + timedelta(
                days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms
            )
            _ = self.now() + passing  # is there such a time?
        except OverflowError:
            raise ValueError("the broker's time can't be pushed beyond the year 9999") from None
        if passing < timedelta():
            raise ValueError(
                f"time does not go back: expected 0 or more, found {passing / timedelta(seconds=1)} seconds"
            )
        self._push(passing / MS)
