"""The age of a group's lag: for how long the record that it has to read next has been there.

What a broker has in memory says where the end of a partition is, not when it came there. So the
ends that scrapes have seen are kept with their times. The age is that of the first end beyond the
committed offset: too short by at most the time between two scrapes, and what was there at the first
scrape counts from then on. Nothing is read from a disk for it.
"""

from __future__ import annotations

from typing import NamedTuple

ENDS_MAX = 16
"""Ends that are kept of a partition. One too many drops every second one, so that old ones are far
apart, and an age is right to about an eighth of it.
"""


class SeenEnd(NamedTuple):
    """The end of a partition when a scrape saw it first, in seconds of a monotonic clock."""

    time_s: float
    end: int


class LagAges:
    """The ends of the partitions that groups read. Thread: the owner thread."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], list[SeenEnd]] = {}
        self._before: dict[tuple[str, int], list[SeenEnd]] = {}

    def begin(self) -> None:
        """Begin a pass over all groups: what it does not come to is forgotten after it."""
        self._before, self._ends = self._ends, {}

    def age_s(self, topic: str, partition: int, committed: int, end: int, now_s: float) -> float:
        """Return for how many seconds `end` has been beyond `committed`, at least; 0: it is not."""
        key = (topic, partition)
        ends = self._ends.get(key)
        if ends is None:
            ends = self._ends[key] = self._before.pop(key, [])
            if ends and end < ends[-1].end:
                ends.clear()  # the topic was made again, or its log was cut
            if not ends or end > ends[-1].end:
                ends.append(SeenEnd(now_s, end))
                if len(ends) > ENDS_MAX:
                    del ends[1:-1:2]
        if end <= committed:
            return 0.0
        return next((now_s - seen.time_s for seen in ends if seen.end > committed), 0.0)
