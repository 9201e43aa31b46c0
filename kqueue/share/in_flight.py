"""The records between the start and the end of a share partition, as ranges of one state.

The ranges are sorted, adjacent and without gaps: a record that was never delivered, or is missing
in the log, has a state too. A range is split only where a part of it changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from kqueue.share.record_state import TERMINAL, RecordEvent, RecordState, after

_FIRST = attrgetter("first")


class InFlightRange:
    """Records `first` to `last`, both included, of one state.

    Attributes:
        member_id: who has acquired them; "": nobody.
        lock_until_ms: when the lock ends, on the monotonic clock.
        event: what becomes of them once it is persisted; None: nothing is on its way.
    """

    __slots__ = ("delivery_count", "event", "first", "last", "lock_until_ms", "member_id", "state")

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = ""
        self.lock_until_ms = 0.0
        self.event: RecordEvent | None = None

    def __repr__(self) -> str:
        return f"InFlightRange({self.first}-{self.last} {self.state.name} {self.delivery_count})"

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire them."""
        return self.state is RecordState.AVAILABLE

    @property
    def is_done(self) -> bool:
        """Whether the group is done with them."""
        return self.state in TERMINAL

    @property
    def next_state(self) -> RecordState:
        """The state once what is on its way is persisted."""
        return self.state if self.event is None else after(self.state, self.event)

    def acquire(self, member_id: str, lock_until_ms: float) -> None:
        """Give them to a member."""
        self.state = after(self.state, RecordEvent.ACQUIRE)
        self.delivery_count += 1
        self.member_id, self.lock_until_ms = member_id, lock_until_ms

    def end(self, event: RecordEvent) -> None:
        """Let `event` take effect."""
        self.state, self.event = after(self.state, event), None
        self.member_id, self.lock_until_ms = "", 0.0

    def split_off(self, first: int) -> InFlightRange:
        """Cut the records from `first` on off, and return them."""
        rest = InFlightRange(first, self.last, self.state, self.delivery_count)
        rest.member_id, rest.lock_until_ms, rest.event = self.member_id, self.lock_until_ms, self.event
        self.last = first - 1
        return rest

    def is_alike(self, other: InFlightRange) -> bool:
        """Whether both may be one range; acquired ones stay as their member received them."""
        return (
            self.state is other.state
            and self.state is not RecordState.ACQUIRED
            and self.delivery_count == other.delivery_count
            and self.event is other.event is None
        )


class InFlightRanges:
    """The ranges from `start` to `end` (exclusive)."""

    __slots__ = ("_ranges", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._ranges: list[InFlightRange] = []

    def __iter__(self) -> Iterator[InFlightRange]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def end(self) -> int:
        """The offset after the last record that was acquired."""
        return self._ranges[-1].last + 1 if self._ranges else self.start

    def append(self, added: InFlightRange) -> None:
        """Add a range at the end. With none there, the start moves to it."""
        if not self._ranges:
            self.start = added.first
        assert added.first == self.end, "ranges have no gaps"
        self._ranges.append(added)

    def overlapping(self, first: int, last: int) -> list[InFlightRange]:
        """Return the ranges with a record of `first` to `last`."""
        begin = max(bisect_right(self._ranges, first, key=_FIRST) - 1, 0)
        if begin < len(self._ranges) and self._ranges[begin].first <= first and last <= self._ranges[begin].last:
            return [self._ranges[begin]]  # the common case
        stop = bisect_right(self._ranges, last, lo=begin, key=_FIRST)
        ranges = self._ranges[begin:stop]
        return ranges[1:] if ranges and ranges[0].last < first else ranges

    def cut(self, first: int, last: int) -> list[InFlightRange]:
        """Return the ranges of exactly `first` to `last`, split at both ends."""
        if last < first or last < self.start:
            return []
        overlapping = self.overlapping(first, last)
        if overlapping and (overlapping[0].first < first or last < overlapping[-1].last):
            self._split(max(first, self.start))
            self._split(last + 1)
            return self.overlapping(first, last)
        return overlapping

    def coalesce(self, first: int, last: int) -> None:
        """Join ranges that are alike, around and within `first` to `last`."""
        begin = max(bisect_right(self._ranges, first - 1, key=_FIRST) - 1, 0)
        stop = bisect_right(self._ranges, last + 1, key=_FIRST)
        joined: list[InFlightRange] = []
        for each in self._ranges[begin:stop]:
            if joined and joined[-1].is_alike(each):
                joined[-1].last = each.last
            else:
                joined.append(each)
        self._ranges[begin:stop] = joined

    def advance(self) -> None:
        """Move the start behind the records that are done and persisted."""
        count, start = 0, self.start
        for each in self._ranges:
            if not each.is_done:
                break
            count, start = count + 1, each.last + 1
        self.start = start
        del self._ranges[:count]

    def drop_before(self, offset: int) -> None:
        """Move the start to `offset`, whatever the state of the records below."""
        if offset <= self.start:
            return
        if offset < self.end:
            self._split(offset)
        del self._ranges[: bisect_right(self._ranges, offset - 1, key=_FIRST)]
        self.start = offset

    def _split(self, offset: int) -> None:
        number = bisect_right(self._ranges, offset, key=_FIRST) - 1
        if number >= 0 and self._ranges[number].first < offset <= self._ranges[number].last:
            self._ranges.insert(number + 1, self._ranges[number].split_off(offset))
