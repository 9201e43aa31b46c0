"""Reads batches of a log: by offset, by time, up to a bound.

A read looks up three positions: the batch with the offset, the end of what may be read, and the
last whole batch within the size. Where bytes are not verified, it returns a task with them; the
caller runs it and reads again. Look-ups by time yield between their steps, and begin again if the
segment they read was removed in between.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator
from typing import NamedTuple, TypeVar

from kqueue.base.errors import CorruptBatch
from kqueue.base.jobs import IoJob
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.recovery.damage import Damage, report_damage
from kqueue.log.recovery.read_verification import (
    CHECK_AHEAD,
    CHECK_BYTES_MIN,
    DamagedBatch,
    Done,
    VerificationResult,
    VerificationTask,
)
from kqueue.log.results import ReadResult, TimestampAndOffset
from kqueue.log.scanner.batch_scanner import AnyHeader, first_offset
from kqueue.log.scanner.resync import batch_at
from kqueue.log.segment import Segment
from kqueue.records.any_format import iter_any_records
from kqueue.records.record import Record

T = TypeVar("T")
HINTS_MAX = 16
STEP_RECORDS = 50
SteppedLookup = Generator[None, None, T]
"""A look-up that may read many batches. It yields between steps, so that other work gets its turn,
and returns the result.
"""


class _SegmentRemoved(Exception):
    """The segment that a look-up reads is no longer part of the log."""


class LogPosition(NamedTuple):
    """Start of a batch: segment, byte position in its file, offset. Kafka's LogOffsetMetadata."""

    segment: Segment
    position: int
    offset: int


class LogReader:
    """Reads the segments of one log; the list is shared with the log, which changes it.

    Positions where a reader is likely to continue are cached, so following a log searches no index.

    Attributes: verifies: reads return a verification task for bytes that were in the file when it
        was opened and have not been compared with their checksums yet.
        verifies_ahead: such a task takes more than the read needs, so that the next reads have
            none. Not where those bytes must be fetched first.
    """

    __slots__ = ("_damage", "_folder", "_hints", "_location", "_segments", "verifies", "verifies_ahead")

    def __init__(self, segments: list[Segment], damage: list[Damage | str], location: str, folder: str) -> None:
        """Args: damage: receives what verification finds."""
        self._segments = segments
        self._damage = damage
        self._location = location
        self._folder = folder
        self._hints: dict[int, LogPosition] = {}
        self.verifies = self.verifies_ahead = True

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, min_one_batch: bool
    ) -> ReadResult:
        """Read batches; see `Log.read`. `offset` is within the log."""
        if offset >= min(end_offset, log_end_offset):
            active = self._segments[-1]
            return ReadResult(None, offset, active.base, active.size)
        try:
            segment, position, _ = self._locate(offset)
            if segment.base > offset and self.verifies:
                task = self._passed_over(segment, offset, log_end_offset)
                if task is not None:
                    return ReadResult(None, offset, segment.base, position, task)
            limit, next_offset = self._limit(segment, end_offset, log_end_offset)
            if position < segment.unverified_size and self.verifies:
                limit, next_offset = _before_damage(segment, offset, position, limit, next_offset)
            if limit - position > max_bytes:
                limit, next_offset = _limit_bytes(segment, position, limit, max_bytes, min_one_batch)
        except CorruptBatch as error:
            if not self.verifies:
                raise
            return self._verification_for(error, (offset, end_offset), log_end_offset)
        if limit <= position:
            return ReadResult(None, offset, segment.base, position)
        region = segment.log.region(position, limit - position)
        if position < segment.unverified_size and self.verifies:
            task = self._unverified(segment, offset, position, limit, log_end_offset)
            if task is not None:
                return ReadResult(region, next_offset, segment.base, position, task)
        self.hint(next_offset, LogPosition(segment, limit, next_offset))
        return ReadResult(region, next_offset, segment.base, position)

    # --- verification of bytes from before the start

    def disable_verification(self) -> None:
        """Serve bytes that were not compared with their checksums, from now on."""
        self.verifies = False

    def verification_job(self, task: VerificationTask, done: Done) -> IoJob[VerificationResult] | None:
        """Return a job for `task`; it calls `done(error or None)` when the read is to be repeated.

        Damage that it finds is added to `Log.damage`; reads of it raise DamagedBatch.

        Returns: None: a running job covers the same bytes, and will call `done`.
        """
        job = task.job(self._report, done)
        if job is not None:
            job.queue = self._location
        return job

    def verify_now(self, task: VerificationTask) -> None:
        """Run `task` in the caller's thread. Blocks. Raises: StorageFailed."""
        self._report(task.finish(task.run()))

    def add_verified(self, task: VerificationTask, result: VerificationResult) -> None:
        """Add the result of `task.run`, which the caller has run in a job."""
        self._report(task.finish(result))

    def _report(self, damages: list[Damage]) -> None:
        report_damage(damages, self._damage, self._location, self._folder)

    def _unverified(
        self, segment: Segment, offset: int, position: int, limit: int, log_end_offset: int
    ) -> VerificationTask | None:
        """Return the verification that a read of `position` to `limit` needs; None: none."""
        checks = segment.checks
        start = position if checks.is_verified(position, position) else segment.anchor(offset)
        if not checks.is_verified(start, limit):
            return self._verification(segment, start, limit, offset, log_end_offset)
        if checks.is_complete:
            segment.mark_verified()
        return None

    def _passed_over(self, segment: Segment, offset: int, log_end_offset: int) -> VerificationTask | None:
        """Return the verification that a read of `offset` needs which begins at `segment`, because
        headers of the segments before say that none of their batches has the offset. No checksum
        covers that: only where all batches are verified does a gap cost nothing. None: none.

        Raises: DamagedBatch: `offset` is in damage there. StorageFailed.
        """
        for passed in self._segments[max(self._number(offset), 0) :]:
            if passed is segment:
                break
            if passed.unverified_size:
                damaged = passed.checks.damaged_at(offset)
                if damaged is not None:
                    raise DamagedBatch(damaged)
                start = passed.anchor(offset)
                if not passed.checks.is_verified(start, passed.unverified_size):
                    return self._verification(passed, start, passed.unverified_size, offset, log_end_offset)
        return None

    def _verification(
        self, segment: Segment, start: int, end: int, until_offset: int, log_end_offset: int
    ) -> VerificationTask:
        size = segment.unverified_size
        if self.verifies_ahead:
            end = min(start + max(CHECK_AHEAD * (end - start), CHECK_BYTES_MIN), size)
        region = segment.log.region(0, size)
        next_segment = self._next_base(segment, log_end_offset)
        return VerificationTask(
            segment.checks, region, start, end=end, until_offset=until_offset, next_segment=next_segment
        )

    def _verification_for(self, error: CorruptBatch, offsets: Iterable[int], log_end_offset: int) -> ReadResult:
        """Return the verification to run after a scan of headers met something that is no batch.

        Raises: `error`: that verification has run already.
        """
        if isinstance(error, DamagedBatch):
            raise error
        for offset in offsets:
            segment = self._segments[max(self._number(offset), 0)]
            if segment.unverified_size == 0:
                continue
            verified = segment.checks.verified_ranges[0]
            if verified.end < segment.unverified_size and verified.next_offset <= offset:
                # from the verified end on, however far: headers after it prove nothing
                task = self._verification(segment, verified.end, verified.end, offset, log_end_offset)
                return ReadResult(None, offset, segment.base, 0, task)
        raise error

    # --- positions

    def hint(self, offset: int, position: LogPosition) -> None:
        """Cache that the batch that holds `offset` starts, or will be appended, at `position`."""
        hints = self._hints
        if len(hints) >= HINTS_MAX and offset not in hints:
            del hints[next(iter(hints))]
        hints[offset] = position

    def clear_hints(self) -> None:
        """Drop the cached positions, because the log was truncated."""
        self._hints.clear()

    def forget(self, segments: Collection[Segment]) -> None:
        """Drop the cached positions in segments that left the log."""
        self._hints = {offset: hint for offset, hint in self._hints.items() if hint.segment not in segments}

    def _locate(self, offset: int) -> LogPosition:
        """Return the batch that holds `offset`, else the next one, else the log end."""
        hint = self._hints.get(offset)
        # A hint at the end of a segment holds while that is the last one: after a roll its offset
        # begins the next segment.
        if hint is not None and (hint.position < hint.segment.size or hint.segment is self._segments[-1]):
            return hint
        for number in range(max(self._number(offset), 0), len(self._segments)):
            segment = self._segments[number]
            batch = segment.find(offset)
            if batch is not None:
                position = LogPosition(segment, batch.position, first_offset(batch.unit))
                if batch.position >= segment.unverified_size:
                    self.hint(offset, position)
                return position
        active = self._segments[-1]
        return LogPosition(active, active.size, offset)

    def _limit(self, segment: Segment, end_offset: int, log_end_offset: int) -> tuple[int, int]:
        """Return the position up to which the segment may be read, and the offset there."""
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
        """Return the number of the last segment that begins at or before `offset`; -1: none."""
        segments = self._segments
        if segments[-1].base <= offset:
            return len(segments) - 1
        return bisect_right(segments, offset, key=_base) - 1

    # --- look-ups by time

    def offset_for_time(
        self, timestamp: int, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        """Find the first record at or after `timestamp`; see `Log.offset_for_time`."""
        while True:
            with contextlib.suppress(_SegmentRemoved):
                return (yield from self._offset_for_time(timestamp, start_offset, end_offset, epochs))

    def latest_timestamp(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        """Find the record with the greatest time; see `Log.latest_timestamp`.

        Costs one look-up, unless the record with a segment's greatest time is out of bounds.
        """
        while True:
            with contextlib.suppress(_SegmentRemoved):
                return (yield from self._latest_timestamp(start_offset, end_offset, epochs))

    def _yield_turn(self, segment: Segment) -> SteppedLookup[None]:
        """End a step. Raises: _SegmentRemoved: the segment was deleted or replaced meanwhile, so
        its files may be different ones.
        """
        yield
        if not any(current is segment for current in self._segments):
            raise _SegmentRemoved

    def _offset_for_time(
        self, timestamp: int, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        for segment in list(self._segments):
            if segment.base >= end_offset:
                break
            if segment.max_timestamp < timestamp:
                continue
            for batch in segment.batches_since(timestamp, start_offset):
                if batch is None:
                    yield from self._yield_turn(segment)
                    continue
                for number, record in enumerate(self._records(segment, *batch), 1):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        match = TimestampAndOffset(record.timestamp, record.offset, epochs.epoch_at(record.offset))
                        return match if record.offset < end_offset else None
                    if not number % STEP_RECORDS:
                        yield from self._yield_turn(segment)
                yield from self._yield_turn(segment)
        return None

    def _latest_timestamp(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochCache
    ) -> SteppedLookup[TimestampAndOffset | None]:
        segments = [segment for segment in self._segments if segment.base < end_offset and segment.max_timestamp >= 0]
        segments.sort(key=lambda segment: (-segment.max_timestamp, segment.base))
        greatest = NO_TIMESTAMP
        for segment in segments:
            if segment.max_timestamp <= greatest:
                break
            match = yield from self._offset_for_time(segment.max_timestamp, start_offset, end_offset, epochs)
            if match is not None:
                return match  # no segment that follows has a later one
            greatest = max(greatest, (yield from self._greatest_in(segment, start_offset, end_offset, greatest)))
        if greatest < 0:
            return None
        return (yield from self._offset_for_time(greatest, start_offset, end_offset, epochs))

    def _greatest_in(self, segment: Segment, start_offset: int, end_offset: int, greatest: int) -> SteppedLookup[int]:
        """Return the greatest time of a record within the bounds, or `greatest` if that is later.

        Reads the whole segment.
        """
        yield from self._yield_turn(segment)  # it may have been removed while another one was read
        for batch in segment.batches_since(0, start_offset):
            if batch is None or batch.unit.max_timestamp <= greatest:
                yield from self._yield_turn(segment)
                continue
            for number, record in enumerate(self._records(segment, *batch), 1):
                if record.offset >= end_offset:
                    return greatest
                if record.offset >= start_offset:
                    greatest = max(greatest, record.timestamp)
                if not number % STEP_RECORDS:
                    yield from self._yield_turn(segment)
        return greatest

    def _records(self, segment: Segment, position: int, unit: AnyHeader) -> Iterator[Record]:
        """Return the records of one batch; compares its checksum unless the batch is verified.

        Raises: as `read`.
        """
        is_unverified = position < segment.unverified_size and self.verifies
        if is_unverified and batch_at(segment.log, position, segment.size) is None:
            raise CorruptBatch(
                f"{segment!r}: expected a batch whose checksum is right at position {position}, found none"
            )
        return iter_any_records(segment.log.read_at(position, unit.size))

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap `start_offset` to `end_offset` (exclusive).

        In order of their end markers. Raises: StorageFailed, CorruptIndex.
        """
        overlapping: list[AbortedTxn] = []
        for number in range(max(self._number(start_offset), 0), len(self._segments)):
            for aborted in self._segments[number].txnindex.read_from(start_offset):
                if aborted.first_offset < end_offset:
                    overlapping.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return overlapping
        return overlapping


def _before_damage(segment: Segment, offset: int, position: int, limit: int, next_offset: int) -> tuple[int, int]:
    """Return `limit` and `next_offset`, moved back to the first known damage after `position`.

    Raises: DamagedBatch: `offset` is damaged itself.
    """
    checks = segment.checks
    damaged = checks.damaged_at(offset)
    if damaged is not None:
        raise DamagedBatch(damaged)
    ahead = checks.damaged_after(position)
    if ahead is not None and ahead.start < limit:
        return ahead.start, ahead.offset
    return limit, next_offset


def _limit_bytes(segment: Segment, position: int, limit: int, max_bytes: int, min_one_batch: bool) -> tuple[int, int]:
    """Return where whole batches within `max_bytes` end, before `limit`, and the offset there.

    Raises: CorruptBatch, StorageFailed.
    """
    limit, next_offset = segment.limit_bytes(position, limit, max_bytes)
    if limit == position and min_one_batch:
        batch = segment.batch_at(position)
        assert batch is not None, "a batch was just read there"
        limit, next_offset = position + batch.unit.size, batch.unit.last_offset + 1
    return limit, next_offset


def _base(segment: Segment) -> int:
    return segment.base
