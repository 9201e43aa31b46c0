"""Verifies checksums before old data is served.

What a segment held when it was opened is verified once, before it is first read. What this process
appends is right by construction and costs nothing. A read of unverified bytes gets a
`VerificationTask`, which runs as a job; the read is repeated when the job ends. The bytes are then
known to be valid or damaged:

    0        verified    damaged   verified      unverified     at opening appended since
    |-----------------|############|-----------|................|------------------------------|

Offsets of a damaged range, from `offset` to `next_offset` (exclusive), are refused. Reads before it
end there, reads beyond it go on.

Besides the checksums offsets must rise, because a batch's base offset lies outside its checksum.
Results are kept while the log is open.
"""

from __future__ import annotations

import itertools
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, KqueueError, StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.base.settings import KiB
from kqueue.log.recovery.damage import Damage
from kqueue.log.scanner.batch_scanner import (
    AnyHeader,
    BatchScanner,
    CheckLevel,
    CorruptRange,
    Readable,
    ScannedBatch,
    first_offset,
    scan,
)
from kqueue.log.scanner.resync import batch_at, corrupt_range, next_batch
from kqueue.storage import Region

CHECK_BYTES_MIN = 256 * KiB
CHECK_AHEAD = 4
"""A task verifies this many times the bytes of the read that asked for it, so that a sequential
reader waits once in a while and not at each read.
"""
READ_BYTES = 64 * KiB
"""Size of one read of the job. Each read releases the interpreter lock, so that small batches do
not delay the owner thread.
"""
logger = logging.getLogger("kqueue.log")
Done = Callable[[KqueueError | None], None]


class VerifiedRange(NamedTuple):
    """Positions `start` to `end` are verified, from one batch's beginning to another's.

    next_offset: the least offset that may follow at `end`.
    """

    start: int
    end: int
    next_offset: int


class DamagedRange(NamedTuple):
    """Positions `start` to `end` hold no valid batch: offsets from `offset` to `next_offset`
    (exclusive) are lost.
    """

    start: int
    end: int
    offset: int
    next_offset: int
    damage: Damage


class DamagedBatch(CorruptBatch):
    """The requested offset is in a damaged range; `damaged_range.next_offset` can be read again."""

    def __init__(self, damaged_range: DamagedRange) -> None:
        super().__init__(str(damaged_range.damage))
        self.damaged_range = damaged_range


class VerificationResult(NamedTuple):
    """The range that a task verified, and the damage within it."""

    verified_range: VerifiedRange
    damaged_ranges: tuple[DamagedRange, ...]


class VerificationTask:
    """Verifies a segment from `start` at least to `end` and past `until_offset`.

    Args:
        start: position where an index says that a batch begins.
        next_segment: all offsets of the segment are below it.

    preceding: the verified range before `start`.
    Thread: `run` in any thread, the rest on the owner thread.
    """

    __slots__ = (
        "_region",
        "_verification",
        "dones",
        "end",
        "next_offset",
        "next_segment",
        "preceding",
        "start",
        "until_offset",
    )

    def __init__(
        self,
        verification: SegmentVerification,
        region: Region,
        start: int,
        *,
        end: int,
        until_offset: int,
        next_segment: int,
    ) -> None:
        self._verification = verification
        self._region = region
        self.preceding = verification.preceding(start)
        self.start = max(start, self.preceding.end)
        self.next_offset = self.preceding.next_offset
        self.end = end
        self.until_offset = until_offset
        self.next_segment = next_segment
        self.dones: list[Done] = []

    def run(self) -> VerificationResult:
        """Read and verify the bytes. Raises StorageFailed."""
        return _Verifier(self, self._region, self._verification.name).run()

    def finish(self, result: VerificationResult) -> list[Damage]:
        """Merge the result; return only damage that was not known before."""
        return self._verification.add(result)

    def job(self, on_damage: Callable[[list[Damage]], None], done: Done) -> IoJob[VerificationResult] | None:
        """The work; None: a running job covers it, and will call `done` too.

        `on_damage(damages)` is called before `done(error)`, if there are any.
        """
        running = self._verification.running
        for other in running:
            # Many consumers that start at one place ask for the same bytes: they are read once.
            if other.start <= self.start and self.end <= other.end and self.until_offset <= other.until_offset:
                other.dones.append(done)
                return None
        running.append(self)
        self.dones.append(done)

        def finish(result: VerificationResult | None, error: BaseException | None) -> None:
            running.remove(self)
            damages = self.finish(result) if result is not None else []
            if damages:
                on_damage(damages)
            failed = (
                error
                if error is None or isinstance(error, KqueueError)
                else StorageFailed(f"{self._verification.name}: {error!r}")
            )
            if failed is not None:
                events.LOG_UNVERIFIED.log(
                    logger, "%s could not be verified, and is not served: %s", log=self._verification.name, error=failed
                )
            for call in self.dones:
                call(failed)

        return IoJob(f"check {self._verification.name}", self.run, finish)


class SegmentVerification:
    """The ranges of a segment's log that are verified, and those that are damaged.

    initial_size: bytes that the log held when it was opened; only these need verification.

    verified_ranges: in order, neither touching nor overlapping; the first begins at 0.
    """

    __slots__ = ("damaged_ranges", "initial_size", "name", "running", "verified_ranges")

    def __init__(self, name: str, base: int, initial_size: int) -> None:
        self.name = name
        self.initial_size = initial_size
        self.verified_ranges = [VerifiedRange(0, 0, base)]
        self.damaged_ranges: list[DamagedRange] = []
        self.running: list[VerificationTask] = []

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are verified and none is damaged."""
        return not self.damaged_ranges and self.verified_ranges[0].end >= self.initial_size

    def preceding(self, position: int) -> VerifiedRange:
        """The last range that begins at or before `position`; there is always one."""
        return self.verified_ranges[bisect_right(self.verified_ranges, position, key=_start) - 1]

    def is_verified(self, start: int, end: int) -> bool:
        """Whether the range is verified, as far as it existed when the segment was opened."""
        return self.preceding(start).end >= min(end, self.initial_size)

    def damaged_at(self, offset: int) -> DamagedRange | None:
        """The damaged range that held the record at `offset`."""
        number = bisect_right(self.damaged_ranges, offset, key=_offset) - 1
        if number >= 0 and offset < self.damaged_ranges[number].next_offset:
            return self.damaged_ranges[number]
        return None

    def damaged_after(self, position: int) -> DamagedRange | None:
        """The first damaged range at or after `position`."""
        number = bisect_left(self.damaged_ranges, position, key=_start)
        return self.damaged_ranges[number] if number < len(self.damaged_ranges) else None

    def add(self, result: VerificationResult) -> list[Damage]:
        """Merge the result; return only damage that was not known before."""
        insort(self.verified_ranges, result.verified_range)
        merged = self.verified_ranges[:1]
        for verified in self.verified_ranges[1:]:
            last = merged[-1]
            if verified.start > last.end:
                merged.append(verified)
            elif verified.end > last.end:
                merged[-1] = VerifiedRange(last.start, verified.end, verified.next_offset)
        self.verified_ranges[:] = merged
        known = {damaged.start for damaged in self.damaged_ranges}
        new = [damaged for damaged in result.damaged_ranges if damaged.start not in known]
        self.damaged_ranges = sorted([*self.damaged_ranges, *new])
        return [damaged.damage for damaged in new]


def scan_undamaged(
    file: Readable, start: int, end: int, damaged_ranges: Sequence[DamagedRange], chunk_bytes: int | None
) -> Iterator[ScannedBatch]:
    """Yield as `scan` does, without the ranges that are known to be damaged. Raises as `scan`."""
    for damaged in itertools.islice(damaged_ranges, max(bisect_right(damaged_ranges, start, key=_start) - 1, 0), None):
        if damaged.end <= start:
            continue
        if damaged.start >= end:
            break
        yield from scan(file, start, damaged.start, chunk_bytes=chunk_bytes, allow_truncated=False)
        start = damaged.end
    yield from scan(file, start, end, chunk_bytes=chunk_bytes, allow_truncated=False)


class _WrongBatch(Exception):
    """The batch of this range is not valid."""

    def __init__(self, corrupt: CorruptRange) -> None:
        super().__init__(corrupt)
        self.corrupt = corrupt


class _LastBatch(NamedTuple):
    """The batch that was read last; the next one confirms its offsets.

    next_offset: the least offset that could have been its first.
    """

    position: int
    next_offset: int
    header: AnyHeader


class _Verifier:
    """One run of a task. The next batch begins at `position`, its least offset is `next_offset`."""

    def __init__(self, task: VerificationTask, region: Region, name: str) -> None:
        self.task = task
        self.source: Readable = region.source
        self.name = name
        self.limit = region.position + region.size
        self.start = self.position = task.start
        self.next_offset = task.next_offset
        self.last: _LastBatch | None = None
        self.damaged_ranges: list[DamagedRange] = []

    def run(self) -> VerificationResult:
        while not self._is_enough():
            try:
                self._verify()
            except _WrongBatch as wrong:
                # Only what follows verified bytes is known to begin with a batch. Elsewhere an
                # index named the position: nothing is called damage on its word.
                if self._has_begun or self.task.preceding.end >= self.start:
                    self._skip(wrong.corrupt)
                else:  # an index said that a batch begins here, and the index may be wrong
                    self.start = self.position = self.task.preceding.end
                    self.next_offset = self.task.preceding.next_offset
        position, next_offset = self._confirmed()
        return VerificationResult(VerifiedRange(self.start, position, next_offset), tuple(self.damaged_ranges))

    @property
    def _has_begun(self) -> bool:
        return self.last is not None or bool(self.damaged_ranges)

    def _confirmed(self) -> tuple[int, int]:
        # Offsets have no checksum: a batch counts only when the next one agrees with it, so the
        # last one is left to the next run.
        if self.last is not None and self.position < self.limit:
            return self.last.position, self.last.next_offset
        return self.position, self.next_offset

    def _is_enough(self) -> bool:
        position, next_offset = self._confirmed()
        return position >= self.limit or (position >= self.task.end and next_offset > self.task.until_offset)

    def _verify(self) -> None:
        scanner = BatchScanner(
            self.source, self.position, self.limit, check=CheckLevel.CHECKSUMS, chunk_bytes=READ_BYTES
        )
        for batch in scanner:
            header = batch.header
            self._check_order(batch)
            if self.start > self.task.preceding.end and not self._has_begun:
                self.next_offset = first_offset(header)  # unverified bytes precede it, and the index names it
            self.last = _LastBatch(batch.position, self.next_offset, header)
            self.position = batch.end
            self.next_offset = header.last_offset + 1
            if self._is_enough():
                return
        if scanner.stop is not None:
            raise _WrongBatch(corrupt_range(scanner, scanner.stop, self.next_offset - 1, self.task.next_segment))

    def _check_order(self, batch: ScannedBatch) -> None:
        """Offsets, which no checksum covers, must rise and end before the next segment. Otherwise
        this batch is wrong, or the last one.
        """
        first, end = first_offset(batch.header), self.task.next_segment
        if first >= self.next_offset and batch.header.last_offset < end:
            return
        last = self.last
        if (
            last is None
            or first >= self.next_offset
            or first < last.next_offset
            or first_offset(last.header) == last.next_offset
        ):
            expected = f"offsets from {self.next_offset} to below {end}"
            raise _WrongBatch(CorruptRange(batch.position, batch.end, expected, _offsets_of(batch.header)))
        # The last batch left a gap, and without it this one fits. If it is just as long as the gap,
        # only the last one is wrong; otherwise either may be.
        count = last.header.last_offset - first_offset(last.header) + 1
        end_position = batch.position if last.next_offset + count == first else batch.end
        self.position, self.next_offset = last.position, last.next_offset
        expected = f"offsets from {last.next_offset} to below {first}"
        raise _WrongBatch(CorruptRange(last.position, end_position, expected, _offsets_of(last.header)))

    def _skip(self, corrupt: CorruptRange) -> None:
        """Note the damage, and continue with the first valid batch after it."""
        offset = self.next_offset
        position, next_offset = self._next_valid(corrupt, offset)
        damage = Damage(self.name, corrupt.position, corrupt.expected, corrupt.found)
        self.damaged_ranges.append(DamagedRange(corrupt.position, position, offset, next_offset, damage))
        self.position, self.next_offset, self.last = position, next_offset, None

    def _next_valid(self, corrupt: CorruptRange, offset: int) -> tuple[int, int]:
        """Position and first offset of the next valid batch that may follow; the end if there is
        none.
        """
        end, next_segment = self.limit, self.task.next_segment
        header = batch_at(self.source, corrupt.end, end) if corrupt.end < end else None
        fits = header is not None and offset <= first_offset(header) and header.last_offset < next_segment
        if corrupt.end == end or fits:
            return corrupt.end, next_segment if header is None else first_offset(header)
        position: int | None = corrupt.position
        while (
            position is not None
            and (position := next_batch(self.source, position + 1, end, after_offset=offset - 1)) is not None
        ):
            header = batch_at(self.source, position, end)
            if header is not None and header.last_offset < next_segment:
                return position, first_offset(header)
        return end, next_segment


def _start(positions: VerifiedRange | DamagedRange) -> int:
    return positions.start


def _offset(damaged: DamagedRange) -> int:
    return damaged.offset


def _offsets_of(header: AnyHeader) -> str:
    return f"offsets {first_offset(header)} to {header.last_offset}"
