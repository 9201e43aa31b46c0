"""One partition as a share group sees it: which records its members hold, and their state.

    start                                                  end
      |  accepted | acquired by A | available | acquired by B |   records never acquired ...

Invariants: a record is acquired by one member at most. The start is the first record that the group
is not done with. What is persisted, plus the events on their way, is memory without the
acquisitions: after a crash those records are available again, with the delivery counts that were
persisted last.

Persisting: one write at a time. Events that come meanwhile wait for it and share the next write, so
that writes take effect in order, and a later start never rests on an earlier write that failed.
Source: KIP-932, Kafka's SharePartition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kqueue.base.clock import Clock
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.timers import Timer, Timers
from kqueue.share.config import ShareGroupConfig
from kqueue.share.errors import InvalidRecordState
from kqueue.share.in_flight import InFlightRange, InFlightRanges
from kqueue.share.record_state import DEAD, EVENTS, TERMINAL, AcknowledgeType, RecordEvent, RecordState
from kqueue.share.share_state import NO_OFFSET, ShareState, ShareUpdate
from kqueue.share.state_batches import StateBatch, joined

RANGES_MAX = 500
"""Ranges that one acquisition begins with at most: the rest waits for the next, so that records
that were released one by one do not make a turn long.
"""
SPANS_PER_TURN = 500
"""Changes of more spans take several turns: one to mark them, and one each before and after the
write. 10,000 single records need some 40 ms, 30 ms and 20 ms.
"""
RETRY_MS = 1000
"""After this time a timeout whose end could not be persisted is repeated."""
Done = Callable[[KqueueError | None], None]
_TYPES = frozenset(int(type) for type in AcknowledgeType)


class AcquiredRange(NamedTuple):
    """Records that a member received, `first` to `last`, for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of the records `first` to `last`: one type for all, or one for
    each.
    """

    first: int
    last: int
    types: Sequence[int]


class DeadRange(NamedTuple):
    """Records that the group gives up. `event`: REJECT or EXHAUST."""

    first: int
    last: int
    delivery_count: int
    event: RecordEvent


class AcquireLimits(NamedTuple):
    """Limits of one acquisition.

    Attributes:
        records_max: records to acquire; the last batch may exceed it unless `strict`.
        batch_size: records of one acquired range, at least, where its neighbours are acquired too.
    """

    records_max: int
    strict: bool = False
    batch_size: int = 1


class ShareCounts:
    """What became of the records of one group since the broker's start.

    Attributes:
        delivered: records that members acquired, each delivery of a record counts.
        redelivered: those of them that had been delivered before.
        rejected, exhausted: records that were given up: refused by a member, and released too
            often.
        dead_lettered: those of them that were copied to the group's dead-letter topic.
    """

    __slots__ = ("dead_lettered", "delivered", "exhausted", "redelivered", "rejected")

    def __init__(self) -> None:
        self.delivered = self.redelivered = self.rejected = self.exhausted = self.dead_lettered = 0


class RecordLocks:
    """Counts the records in flight of all share partitions of a broker."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self.count = 0
        self._limit = limit

    @property
    def free(self) -> int:
        """Records that may be added."""
        return max(self._limit() - self.count, 0)


class ShareHost(Protocol):
    """The part of the layer above that a share partition uses."""

    clock: Clock
    timers: Timers
    locks: RecordLocks
    counts: ShareCounts

    def config(self) -> ShareGroupConfig:
        """Return the group's present values."""
        ...

    def write(self, update: ShareUpdate, dead: Sequence[DeadRange], done: Done) -> None:
        """Persist `update`, after what becomes of the records `dead`; call `done` once that is
        decided, possibly before this returns.
        """
        ...

    def released(self) -> None:
        """Records are available again."""
        ...

    def run_later(self, run: Callable[[], None]) -> None:
        """Call `run` in a later turn."""
        ...


class _Change(NamedTuple):
    """Events of some ranges, to be persisted together."""

    spans: list[tuple[int, int]]
    done: Done


class SharePartition:
    """The in-flight records of one partition in one group.

    Durability: when `done(None)` of an acknowledgement is called, it is persisted. Acquisitions are
        in memory only.
    Thread: the owner thread.

    Args:
        state: what is persisted.
        start_offset: where the group begins if `state` does not say.
    """

    def __init__(self, host: ShareHost, state: ShareState, start_offset: int) -> None:
        self._host = host
        self.state_epoch = state.state_epoch
        self._ranges = InFlightRanges(start_offset if state.start_offset == NO_OFFSET else state.start_offset)
        for batch in state.batches:
            if batch.first > self._ranges.end:  # delivered when the broker stopped, and not acknowledged
                self._ranges.append(InFlightRange(self._ranges.end, batch.first - 1, RecordState.AVAILABLE, 0))
            if batch.last >= self._ranges.end:
                each = InFlightRange(self._ranges.end, batch.last, batch.state, batch.delivery_count)
                self._ranges.append(each)
        self._ranges.advance()
        self.is_fenced = False
        self._counted = 0
        self._count()
        self._changes: list[_Change] = []  # to be written next
        self._writing = False
        self._timer: Timer | None = None

    @property
    def start_offset(self) -> int:
        """The first record that the group is not done with."""
        return self._ranges.start

    @property
    def in_flight(self) -> int:
        """The number of records between start and end."""
        return self._counted

    @property
    def end_offset(self) -> int:
        """The record after the last one that was acquired."""
        return self._ranges.end

    def ranges(self) -> list[InFlightRange]:
        """Return the records in flight."""
        return list(self._ranges)

    def next_fetch_offset(self) -> int | None:
        """Return the first record that can be acquired; None: none, until others are acknowledged
        or released.
        """
        for each in self._ranges:
            if each.is_available:
                return each.first
        return self.end_offset if self._room() > 0 else None

    def _room(self) -> int:
        """Return the number of records beyond the end that may be acquired."""
        in_flight = self.end_offset - self.start_offset
        return min(self._host.config().record_locks_max - in_flight, self._host.locks.free)

    # --- acquisitions

    def acquire(
        self, member_id: str, fetch_offset: int, batches: Iterable[tuple[int, int]], limits: AcquireLimits
    ) -> list[AcquiredRange]:
        """Give a member the available records of `batches`.

        Args:
            fetch_offset: from which the log was read.
            batches: first and last offset of each record batch that was read, ascending. Records
                between them are missing in the log, and archived.
        """
        config = self._host.config()
        lock_until_ms = self._host.clock.monotonic_ms() + config.lock_duration_ms
        acquired: list[InFlightRange] = []
        count, position = 0, fetch_offset
        for first, last in batches:
            if count >= limits.records_max or len(acquired) >= RANGES_MAX:
                break
            if position < first:
                self._skip(position, first - 1)
            position = max(last + 1, position)
            budget = limits.records_max - count if limits.strict else last - first + 1
            for each in self._acquirable(max(first, fetch_offset), last, budget, strict=limits.strict):
                each.acquire(member_id, lock_until_ms)
                acquired.append(each)
                size = each.last - each.first + 1
                count += size
                if each.delivery_count > 1:
                    self._host.counts.redelivered += size
                if len(acquired) >= RANGES_MAX:
                    break
        if acquired:
            self._host.counts.delivered += count
            self._arm(lock_until_ms)
        self._count()
        return _received(acquired, limits.batch_size)

    def _acquirable(self, first: int, last: int, budget: int, *, strict: bool) -> Iterable[InFlightRange]:
        """Yield available ranges of `first` to `last`, new ones too: at most `budget` records."""
        for each in self._ranges.overlapping(first, last):
            if not each.is_available or budget <= 0:
                continue
            begin = max(each.first, first)
            stop = min(each.last, last, begin + budget - 1)
            budget -= stop - begin + 1
            yield from self._ranges.cut(begin, stop)
        begin = max(first, self.end_offset)
        room = self._room()
        if begin <= last and budget > 0 and room > 0:
            stop = min(last, begin + min(budget, room) - 1) if strict else last
            self._fill(begin)
            added = InFlightRange(begin, stop, RecordState.AVAILABLE, 0)
            self._ranges.append(added)
            yield added

    def _fill(self, offset: int) -> None:
        """Let `offset` be the end: records up to it are missing in the log."""
        # With no range there is no gap to fill: the first one moves the start.
        if self._ranges.end < offset and len(self._ranges):
            self._ranges.append(InFlightRange(self._ranges.end, offset - 1, RecordState.ARCHIVED, 0))

    def _skip(self, first: int, last: int) -> None:
        """Archive available records that are missing in the log. They are found again after a
        crash, so this is not persisted.
        """
        for each in self._ranges.cut(first, min(last, self.end_offset - 1)):
            if each.is_available:
                each.end(RecordEvent.SKIP)
        self._ranges.coalesce(first, last)
        self._ranges.advance()

    def skip(self, fetch_offset: int, next_offset: int) -> None:
        """Archive what was read and must not be delivered: all from `fetch_offset` to
        `next_offset` (exclusive) that is available or was never acquired.
        """
        if next_offset > self.end_offset and len(self._ranges):
            self._fill(next_offset)
        elif not len(self._ranges):
            self._ranges.drop_before(next_offset)
        self._skip(fetch_offset, next_offset - 1)
        self._count()

    def advance_start(self, log_start_offset: int) -> None:
        """Forget the records below the start of the log; their acknowledgements have no effect."""
        self._ranges.drop_before(log_start_offset)
        self._ranges.advance()
        self._count()

    # --- acknowledgements

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement], done: Done) -> None:
        """Apply what a member says of its records: all of it, or nothing if `done` has an error.

        Records below the start are skipped. Errors: InvalidRecordState: records that it does not
        hold. InvalidRequest: records that were never acquired, or a wrong type.
        """
        try:
            # All are checked before one is applied: the request takes effect as a whole, or not at
            # all.
            planned = [step for each in acknowledgements for step in self._plan(member_id, each)]
        except KqueueError as error:
            done(error)
            return
        spans: list[tuple[int, int]] = []
        for first, last, type in planned:
            if type is AcknowledgeType.RENEW:
                self._renew(first, last)
                continue
            for each in self._ranges.cut(first, last):
                # Marked, not changed: the state is what is persisted. The mark keeps the timer and
                # other acknowledgements away from these records meanwhile.
                each.event = self._event(each, EVENTS[type])
            spans.append((first, last))
        if spans:
            self._persist(_Change(spans, done))
        else:
            done(None)

    def _plan(self, member_id: str, acknowledgement: Acknowledgement) -> list[tuple[int, int, AcknowledgeType]]:
        """Check one acknowledgement; return first and last offset and type of its runs."""
        first, last, types = acknowledgement
        if AcknowledgeType.RENEW in types and not self._host.config().renew_enabled:
            raise InvalidRecordState("locks can't be renewed: share.renew.acknowledge.enable of the group is false")
        if last < self.start_offset:
            return []
        if last >= self.end_offset:
            raise InvalidRequest(
                f"records {first} to {last} can't be acknowledged: none from {self.end_offset} on was acquired"
            )
        for each in self._ranges.overlapping(max(first, self.start_offset), last):
            if each.state is not RecordState.ACQUIRED or each.event is not None:
                raise InvalidRecordState(f"records {each.first} to {each.last} can't be acknowledged: not acquired")
            if each.member_id != member_id:
                raise InvalidRecordState(
                    f"records {each.first} to {each.last} can't be acknowledged: another member has acquired them"
                )
        return [
            (max(begin, self.start_offset), stop, type)
            for begin, stop, type in _runs(first, last, types)
            if stop >= self.start_offset
        ]

    def _event(self, each: InFlightRange, event: RecordEvent) -> RecordEvent:
        is_last = each.delivery_count >= self._host.config().delivery_count_limit
        # Released for the last time allowed: else a record that no consumer can process would come
        # round for ever (KIP-932).
        return RecordEvent.EXHAUST if event is RecordEvent.RELEASE and is_last else event

    def _renew(self, first: int, last: int) -> None:
        until_ms = self._host.clock.monotonic_ms() + self._host.config().lock_duration_ms
        for each in self._ranges.cut(first, last):
            each.lock_until_ms = until_ms

    def release(self, member_id: str, done: Done) -> None:
        """Release all that a member holds: its session has ended."""
        spans: list[tuple[int, int]] = []
        for each in self._ranges:
            if each.state is RecordState.ACQUIRED and each.member_id == member_id and each.event is None:
                each.event = self._event(each, RecordEvent.RELEASE)
                spans.append((each.first, each.last))
        if spans:
            self._persist(_Change(spans, done))
        else:
            done(None)

    # --- locks

    def _arm(self, due_ms: float) -> None:
        if self._timer is not None and self._timer.pending:
            if self._timer.deadline_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer = self._host.timers.at(due_ms, self._expire)

    def _expire(self) -> None:
        """Release the records whose lock is over; if that can't be persisted, again later."""
        now_ms = self._host.clock.monotonic_ms()
        spans: list[tuple[int, int]] = []
        due_ms: float | None = None
        for each in self._ranges:
            if each.state is not RecordState.ACQUIRED or each.event is not None:
                continue
            if each.lock_until_ms <= now_ms:
                each.event = self._event(each, RecordEvent.RELEASE)
                spans.append((each.first, each.last))
            else:
                due_ms = min(each.lock_until_ms, due_ms or each.lock_until_ms)
        if due_ms is not None:
            self._arm(due_ms)
        if spans:
            self._persist(_Change(spans, lambda error: None))

    def close(self) -> None:
        """Stop the timer, and answer what waits: the share partition is not used any more."""
        self.is_fenced = True
        if self._timer is not None:
            self._timer.cancel()
        self._host.locks.count -= self._counted
        self._counted = 0

    # --- persisting

    def _persist(self, change: _Change) -> None:
        self._changes.append(change)
        if not self._writing:
            self._writing = True
            self._in_turn(len(change.spans), self._write)

    def _in_turn(self, spans: int, run: Callable[[], None]) -> None:
        """Call `run`, in a turn of its own if it is for many spans."""
        if spans > SPANS_PER_TURN:
            self._host.run_later(run)
        else:
            run()

    def _write(self) -> None:
        # Everything that came during the last write is one update.
        changes, self._changes = self._changes, []
        spans = [span for change in changes for span in change.spans]
        ranges = sorted((each for span in spans for each in self._ranges.cut(*span)), key=lambda each: each.first)
        dead = [
            DeadRange(each.first, each.last, each.delivery_count, each.event) for each in ranges if each.event in DEAD
        ]
        self._host.write(
            self._update(ranges), dead, lambda error: self._in_turn(len(spans), partial(self._written, changes, error))
        )

    def _update(self, ranges: Sequence[InFlightRange]) -> ShareUpdate:
        """Return what is to be persisted of `ranges`: those of all events that are on their way."""
        batches = [StateBatch(each.first, each.last, each.next_state, each.delivery_count) for each in ranges]
        start, complete, at_start = self.start_offset, 0, True
        for each in self._ranges:
            is_done = each.next_state in TERMINAL
            at_start = at_start and is_done
            if at_start:
                start = each.last + 1
            elif is_done:
                complete += each.last - each.first + 1
        return ShareUpdate(start, joined(each for each in batches if each.last >= start), complete)

    def _written(self, changes: Sequence[_Change], error: KqueueError | None) -> None:
        retry_ms = self._host.clock.monotonic_ms() + RETRY_MS
        has_released = False
        for change in changes:
            for first, last in change.spans:
                for each in self._ranges.cut(first, last):
                    assert each.event is not None
                    if error is None:
                        self._count_given_up(each, each.event)
                        each.end(each.event)
                        has_released = has_released or each.is_available
                    else:
                        # Not persisted, so nothing has changed: the member still holds them until
                        # the lock ends. That is tried again, but not at once if it is over.
                        each.event = None
                        self._arm(max(each.lock_until_ms, retry_ms))
        for first, last in _joined_spans(change.spans for change in changes):
            self._ranges.coalesce(first, last)
        self._ranges.advance()
        self._count()
        # `_writing` is still True: what these calls persist in turn waits for the next write.
        for change in changes:
            change.done(error)
        self._writing = bool(self._changes)
        if self._writing:
            self._in_turn(sum(len(change.spans) for change in self._changes), self._write)
        if (has_released or error is None) and not self.is_fenced:
            self._host.released()

    def _count_given_up(self, each: InFlightRange, event: RecordEvent) -> None:
        if event is RecordEvent.REJECT:
            self._host.counts.rejected += each.last - each.first + 1
        elif event is RecordEvent.EXHAUST:
            self._host.counts.exhausted += each.last - each.first + 1

    def _count(self) -> None:
        count = 0 if self.is_fenced else self.end_offset - self.start_offset
        self._host.locks.count += count - self._counted
        self._counted = count


def _joined_spans(spans: Iterable[Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return sorted spans with adjacent ones as one."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(itertools.chain.from_iterable(spans)):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def _runs(first: int, last: int, types: Sequence[int]) -> Iterable[tuple[int, int, AcknowledgeType]]:
    """Yield first and last offset and type of records that follow each other with one type."""
    if len(types) == 1:
        yield first, last, AcknowledgeType(types[0])
        return
    begin = first
    for offset in range(first, last + 1):
        if offset == last or types[offset + 1 - first] != types[begin - first]:
            yield begin, offset, AcknowledgeType(types[begin - first])
            begin = offset + 1


def check_types(acknowledgements: Sequence[Acknowledgement]) -> None:
    """Check what does not depend on the records. Raises InvalidRequest."""
    former = -1
    for first, last, types in acknowledgements:
        if not 0 <= first <= last or first <= former:
            raise InvalidRequest(f"expected ranges of offsets, ascending, found {first} to {last} after {former}")
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest(
                f"records {first} to {last} have one acknowledge type, or one each, found {len(types)}"
            )
        wrong = set(types) - _TYPES
        if wrong:
            raise InvalidRequest(f"expected an acknowledge type of 0 to {len(AcknowledgeType) - 1}, found {wrong}")
        former = last


def _received(acquired: Iterable[InFlightRange], batch_size: int) -> list[AcquiredRange]:
    """Join neighbours of one delivery count until a range has `batch_size` records."""
    result: list[AcquiredRange] = []
    for each in acquired:
        if result:
            former = result[-1]
            is_next = former.last + 1 == each.first and former.delivery_count == each.delivery_count
            if is_next and former.last - former.first + 1 < batch_size:
                result[-1] = former._replace(last=each.last)
                continue
        result.append(AcquiredRange(each.first, each.last, each.delivery_count))
    return result
