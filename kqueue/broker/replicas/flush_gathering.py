"""Group commit: lets the next flush of a log wait for appends that come together.

Producers whose records one flush made durable send their next ones at about the same time, but not
in one turn of the loop. A flush that began with the first of them would make the others wait for a
second flush. So a flush waits for as many appends as were under way at the end of the last one, for
at most `TURNS_MAX` turns. A producer that sends one batch at a time never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kqueue.broker.purgatory import Purgatory

TURNS_MAX = 8
"""A turn without requests takes some 10 µs, a flush on a fast disk 100 µs."""


class AppendCounts:
    """The appends of one log, as far as its next flush needs them.

    Attributes: waiting: appends since the last flush began; each append adds one.
    """

    __slots__ = ("_expected", "_served", "_turns", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self._served = 0  # by the flush that began last
        self._expected = 0
        self._turns = 0  # that the next flush has waited

    def flush_began(self) -> None:
        """All appends so far are served by the flush that begins."""
        self._served, self.waiting, self._turns = self.waiting, 0, 0

    def flush_ended(self) -> None:
        """Expect that the producers whose appends were served send as many again."""
        # One less at a time: requests that are on their way from a producer are not seen here.
        self._expected = max(self._served + self.waiting, self._expected - 1)

    def expects_more(self) -> bool:
        """Return whether the next flush waits for one more turn."""
        if self.waiting >= self._expected or self._turns == TURNS_MAX:
            return False
        self._turns += 1
        return True


class GatheredFlush(Protocol):
    """The flush of one log, as `FlushGathering` sees it."""

    counts: AppendCounts

    def now(self) -> None:
        """Begin it."""


class FlushGathering:
    """The flushes of one broker that are due, until they begin."""

    __slots__ = ("_due", "_purgatory")

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._due: list[GatheredFlush] = []

    def add(self, flush: GatheredFlush) -> None:
        """Begin `flush` at the end of the turn, or a few turns later."""
        self._due.append(flush)
        if len(self._due) == 1:
            self._purgatory.defer(self._begin)

    def _begin(self) -> None:
        due, self._due = self._due, []
        ready: list[GatheredFlush] = []
        for flush in due:
            (self._due if flush.counts.expects_more() else ready).append(flush)
        if self._due:
            self._purgatory.run_in_later_turn(self._begin)
        # One by one where they are many: the failure of one does not end the others, and sockets
        # are polled in between.
        for flush in ready[1:]:
            self._purgatory.defer(flush.now)
        if ready:
            ready[0].now()
