"""Finding batches in a log: by offset, by time, and up to a bound."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator
from typing import NamedTuple, TypeVar

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.recovery.read_verification import CHECK_AHEAD, CHECK_BYTES_MIN, DamagedBatch, VerificationTask
from kqueue.log.scanner.batch_scanner import AnyHeader, first_offset
from kqueue.log.scanner.resync import batch_at
from kqueue.log.segment import Segment
from kqueue.records.any_format import iter_any_records
from kqueue.records.record import Record
from kqueue.storage import Region

T = TypeVar("T")
HINTS_MAX = 16
STEP_RECORDS = 50
SteppedLookup = Generator[None, None, T]
"""A look-up that may read many batches; it yields now and then, so that others may have their turn,
and returns what it found.
"""


class _SegmentGone(Exception):
    """A segment that was being read is no part of the log any more."""


class ReadResult:
    """Whole batches, out of one segment; false and of length 0 where there is nothing to read below
    the bound, or nothing that fits.

    `region`: the bytes, None where there are none; `next_offset`: where to read on; `segment_base`
    and `position`: where the batches stand. `check`: what has to be done before they are served,
    and then the read be repeated (see `verifying`); None: they are known to be right.
    """

    __slots__ = ("check", "next_offset", "position", "region", "segment_base")

    def __init__(
        self,
        region: Region | None,
        next_offset: int,
        segment_base: int,
        position: int,
        check: VerificationTask | None = None,
    ) -> None:
        self.region = region
        self.next_offset = next_offset
        self.segment_base = segment_base
        self.position = position
        self.check = check

    def __len__(self) -> int:
        return self.region.size if self.region is not None else 0

    @property
    def data(self) -> Region | bytes:
        """The region, to be sent without a copy, or no bytes."""
        return self.region if self.region is not None else b""

    def read(self) -> bytes:
        """The bytes. Raises StorageFailed."""
        return self.region.read() if self.region is not None else b""


class TimestampAndOffset(NamedTuple):
    """A record found by its time, in ms; `leader_epoch` -1: not known."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogPosition(NamedTuple):
    """Where a batch begins: in which segment, at which position, with which offset."""

    segment: Segment
    position: int
    offset: int


class LogReader:
    """Reads the segments of one log, oldest first; the list is the log's own, and grows and shrinks
    under our eyes.

    Places where somebody is likely to read on are remembered, so that following a log searches no
    index.
    """

    __slots__ = ("_hints", "_segments", "verifies")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._hints: dict[int, LogPosition] = {}
        self.verifies = True  # say of what was found on the disk what has to be checked first

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, min_one_batch: bool
    ) -> ReadResult:
        """See `Log.read`; `offset` is within the log."""
        if offset >= min(end_offset, log_end_offset):
            active = self._segments[-1]
            return ReadResult(None, offset, active.base, active.size)
        try:
            segment, position, _ = self._locate(offset)
            limit, next_offset = self._limit(segment, end_offset, log_end_offset)
            if position < segment.unverified_size and self.verifies:
                return self._read_found(
                    segment, position, offset, max_bytes, limit, next_offset, log_end_offset, min_one_batch
                )
            if limit - position > max_bytes:
                limit, next_offset = _cut(segment, position, limit, max_bytes, min_one_batch)
        except CorruptBatch as error:
            if not self.verifies:
                raise
            return self._check_for(error, (offset, end_offset), log_end_offset)
        if limit <= position:
            return ReadResult(None, offset, segment.base, position)
        self.hint(next_offset, LogPosition(segment, limit, next_offset))
        return ReadResult(segment.log.region(position, limit - position), next_offset, segment.base, position)

    def _read_found(
        self,
        segment: Segment,
        position: int,
        offset: int,
        max_bytes: int,
        limit: int,
        next_offset: int,
        log_end_offset: int,
        min_one_batch: bool,
    ) -> ReadResult:
        """`read` where the bytes were in the file when it was opened: what was not looked at yet
        has to be checked first.
        """
        checks = segment.checks
        hurt = checks.damaged_at(offset)
        if hurt is not None:
            raise DamagedBatch(hurt)
        ahead = checks.damaged_after(position)
        if ahead is not None and ahead.start < limit:
            limit, next_offset = ahead.start, ahead.offset
        if limit - position > max_bytes:
            limit, next_offset = _cut(segment, position, limit, max_bytes, min_one_batch)
        if limit <= position:
            return ReadResult(None, offset, segment.base, position)
        region = segment.log.region(position, limit - position)
        start = position if checks.is_verified(position, position) else segment.anchor(offset)
        if not checks.is_verified(start, limit):
            return ReadResult(
                region, next_offset, segment.base, position, self._check(segment, start, limit, offset, log_end_offset)
            )
        if checks.is_complete:
            segment.mark_verified()
        self.hint(next_offset, LogPosition(segment, limit, next_offset))
        return ReadResult(region, next_offset, segment.base, position)

    def _check(
        self, segment: Segment, start: int, end: int, until_offset: int, log_end_offset: int
    ) -> VerificationTask:
        found = segment.unverified_size
        end = min(start + max(CHECK_AHEAD * (end - start), CHECK_BYTES_MIN), found)
        region = segment.log.region(0, found)
        next_segment = self._next_base(segment, log_end_offset)
        return VerificationTask(
            segment.checks, region, start, end=end, until_offset=until_offset, next_segment=next_segment
        )

    def _check_for(self, error: CorruptBatch, offsets: Iterable[int], log_end_offset: int) -> ReadResult:
        """Walking over headers came upon something that is no batch: the check to do for these
        offsets. Raises `error`: it was done.
        """
        if isinstance(error, DamagedBatch):
            raise error
        for offset in offsets:
            segment = self._segments[max(self._number(offset), 0)]
            if segment.unverified_size == 0:
                continue
            known = segment.checks.verified_ranges[0]
            if known.end < segment.unverified_size and known.next_offset <= offset:
                # from what is known for sure, however far: nobody can tell what the headers since
                # are worth
                return ReadResult(
                    None, offset, segment.base, 0, self._check(segment, known.end, known.end, offset, log_end_offset)
                )
        raise error

    def hint(self, offset: int, place: LogPosition) -> None:
        """The batch that holds `offset` begins there, or will be appended there."""
        hints = self._hints
        if len(hints) >= HINTS_MAX and offset not in hints:
            del hints[next(iter(hints))]
        hints[offset] = place

    def forget_hints(self) -> None:
        """Something was cut off."""
        self._hints.clear()

    def forget(self, segments: Collection[Segment]) -> None:
        """These are no part of the log any more."""
        self._hints = {offset: place for offset, place in self._hints.items() if place.segment not in segments}

    def _locate(self, offset: int) -> LogPosition:
        """The batch that holds `offset`, or the first one after it; the end of the log if there is
        none.
        """
        hint = self._hints.get(offset)
        if hint is not None and (hint.position < hint.segment.size or hint.segment is self._segments[-1]):
            return hint
        for number in range(max(self._number(offset), 0), len(self._segments)):
            segment = self._segments[number]
            found = segment.find(offset)
            if found is not None:
                place = LogPosition(segment, found.position, first_offset(found.unit))
                if found.position >= segment.unverified_size:
                    self.hint(offset, place)
                return place
        active = self._segments[-1]
        return LogPosition(active, active.size, offset)

    def _limit(self, segment: Segment, end_offset: int, log_end_offset: int) -> tuple[int, int]:
        """Position up to which the segment may be read, and the offset there."""
        next_base = self._next_base(segment, log_end_offset)
        if end_offset >= next_base:
            return segment.size, next_base
        end = self._locate(end_offset)
        next_offset = min(end_offset, end.offset)
        return (end.position, next_offset) if end.segment is segment else (segment.size, next_offset)

    def _next_base(self, segment: Segment, log_end_offset: int) -> int:
        after = self._number(segment.base) + 1
        return self._segments[after].base if after < len(self._segments) else log_end_offset

    def _number(self, offset: int) -> int:
        """Number of the last segment that begins at or before `offset`; -1: none does."""
        segments = self._segments
        if segments[-1].base <= offset:
            return len(segments) - 1
        return bisect_right(segments, offset, key=_base) - 1

    def offset_for_time(
        self, timestamp: int, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        """See `Log.offset_for_time`."""
        while True:
            with contextlib.suppress(_SegmentGone):
                return (yield from self._offset_for_time(timestamp, start_offset, end_offset, epochs))

    def latest_timestamp(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        """See `Log.latest_timestamp`. One look-up, unless the greatest time of a segment is that of
        a record outside of the bounds.
        """
        while True:
            with contextlib.suppress(_SegmentGone):
                return (yield from self._latest_timestamp(start_offset, end_offset, epochs))

    def _give_way(self, segment: Segment) -> SteppedLookup[None]:
        """Let others have their turn. Raises _SegmentGone: they dropped or replaced the segment,
        whose files may be others by now.
        """
        yield
        if not any(one is segment for one in self._segments):
            raise _SegmentGone

    def _offset_for_time(
        self, timestamp: int, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        for segment in list(self._segments):
            if segment.base >= end_offset:
                break
            if segment.max_timestamp < timestamp:
                continue
            for batch in segment.since(timestamp, start_offset):
                if batch is None:
                    yield from self._give_way(segment)
                    continue
                for number, record in enumerate(self._records(segment, *batch), 1):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        found = TimestampAndOffset(record.timestamp, record.offset, epochs.epoch_at(record.offset))
                        return found if record.offset < end_offset else None
                    if not number % STEP_RECORDS:
                        yield from self._give_way(segment)
                yield from self._give_way(segment)
        return None

    def _latest_timestamp(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        within = [segment for segment in self._segments if segment.base < end_offset and segment.max_timestamp >= 0]
        within.sort(key=lambda segment: (-segment.max_timestamp, segment.base))
        best = NO_TIMESTAMP
        for segment in within:
            if segment.max_timestamp <= best:
                break
            found = yield from self._offset_for_time(segment.max_timestamp, start_offset, end_offset, epochs)
            if found is not None:
                return found  # no segment that is left has a later one
            best = max(best, (yield from self._latest_in(segment, start_offset, end_offset, best)))
        return (yield from self._offset_for_time(best, start_offset, end_offset, epochs)) if best >= 0 else None

    def _latest_in(self, segment: Segment, start_offset: int, end_offset: int, best: int) -> SteppedLookup[int]:
        """The greatest time of a record within the bounds, where it is later than `best`. Reads the
        segment.
        """
        yield from self._give_way(segment)  # it may have gone while another one was read
        for batch in segment.since(0, start_offset):
            if batch is None or batch.unit.max_timestamp <= best:
                yield from self._give_way(segment)
                continue
            for number, record in enumerate(self._records(segment, *batch), 1):
                if record.offset >= end_offset:
                    return best
                if record.offset >= start_offset:
                    best = max(best, record.timestamp)
                if not number % STEP_RECORDS:
                    yield from self._give_way(segment)
        return best

    def _records(self, segment: Segment, position: int, unit: AnyHeader) -> Iterator[Record]:
        """The records of one batch, whose checksum is compared where nobody knows yet that it is
        right. Raises as `read`.
        """
        if (
            position < segment.unverified_size
            and self.verifies
            and batch_at(segment.log, position, segment.size) is None
        ):
            raise CorruptBatch(
                f"{segment!r}: expected a batch whose checksum is right at position {position}, found none"
            )
        return iter_any_records(segment.log.read_at(position, unit.size))

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """See `Log.aborted`."""
        found: list[AbortedTxn] = []
        for number in range(max(self._number(start_offset), 0), len(self._segments)):
            for aborted in self._segments[number].txnindex.read():
                if aborted.last_offset >= start_offset and aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found
        return found


def _cut(segment: Segment, position: int, limit: int, max_bytes: int, min_one_batch: bool) -> tuple[int, int]:
    """Where to end before `limit` for the sake of `max_bytes`, and the offset there. Raises
    CorruptBatch, StorageFailed.
    """
    limit, next_offset = segment.cut(position, limit, max_bytes)
    if limit == position and min_one_batch:
        found = segment.at(position)
        assert found is not None, "a batch was just read there"
        limit, next_offset = position + found.unit.size, found.unit.last_offset + 1
    return limit, next_offset


def _base(segment: Segment) -> int:
    return segment.base
