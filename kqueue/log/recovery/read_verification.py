"""Checksums before old data is served: what a segment held when it was opened is compared once,
before anybody first reads it.

What this process appends is right by construction and costs nothing. A read that comes upon bytes
that were not looked at yet gets a `VerificationTask`, whose `run` reads them in a job, and is asked again when
that is done; by then they are known to be right, or to be damaged:

    0        checked     damaged   checked            not looked at      found       appended since
    |-----------------|############|-----------|.....................|------------------------------|
                      offset to next_offset (exclusive) are refused; readers before it stop there, readers beyond it go on

Besides the checksums offsets must rise, because a batch's base offset lies outside its checksum.
Known for as long as the log is open.
"""

from __future__ import annotations

import itertools
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch, KqueueError, StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.base.settings import KiB
from kqueue.log.recovery.damage import Damage
from kqueue.log.scanner.batch_scanner import Readable, Unit, first_offset, scan
from kqueue.log.scanner.header_validation import CorruptRange, corrupt_range_at
from kqueue.log.scanner.resync import batch_at, next_batch
from kqueue.storage import Region

CHECK_BYTES_MIN = 256 * KiB
CHECK_AHEAD = 4
"""A check goes on for so many times what was read, so that whoever reads in order waits once in a
while and not each time.
"""
READ_BYTES = 64 * KiB
"""What the job reads at a time: between two reads it lets go of the interpreter, so that small
batches don't hold up the owner thread.
"""
logger = logging.getLogger("kqueue.log")
Done = Callable[[KqueueError | None], None]


class VerifiedRange(NamedTuple):
    """Positions `start` to `end` were looked at, from one batch's beginning to another's;
    `next_offset`: of what follows at `end`.
    """

    start: int
    end: int
    next_offset: int


class DamagedRange(NamedTuple):
    """Positions `start` to `end` hold no whole batch: offsets from `offset` to `next_offset`
    (exclusive) are lost.
    """

    start: int
    end: int
    offset: int
    next_offset: int
    damage: Damage


class DamagedBatch(CorruptBatch):
    """What was asked for is known to be damaged; `hurt.next_offset` is where reading can go on."""

    def __init__(self, hurt: DamagedRange) -> None:
        super().__init__(str(hurt.damage))
        self.hurt = hurt


class VerificationResult(NamedTuple):
    """What a check found: how far it came, and what is damaged within."""

    walked: VerifiedRange
    hurts: tuple[DamagedRange, ...]


class VerificationTask:
    """What has to be done before some bytes may be served: compare checksums from `start` to `end`,
    and past `until_offset`.

    `start`: where an index says that a batch begins; `proven`: what is known before it.
    `next_segment`: all offsets lie below it. `run` may be called in any thread; the rest belongs to
    the owner.
    """

    __slots__ = ("_checks", "_region", "dones", "end", "next_offset", "next_segment", "proven", "start", "until_offset")

    def __init__(
        self, checks: SegmentVerification, region: Region, start: int, *, end: int, until_offset: int, next_segment: int
    ) -> None:
        self._checks = checks
        self._region = region
        self.proven = checks.before(start)
        self.start = max(start, self.proven.end)
        self.next_offset = self.proven.next_offset
        self.end = end
        self.until_offset = until_offset
        self.next_segment = next_segment
        self.dones: list[Done] = []

    def run(self) -> VerificationResult:
        """Read and compare. Raises StorageFailed."""
        return _Walk(self, self._region, self._checks.name).run()

    def finish(self, outcome: VerificationResult) -> list[Damage]:
        """Take over what was found, of which nobody knew before is returned."""
        return self._checks.add(outcome)

    def job(self, found: Callable[[list[Damage]], None], done: Done) -> IoJob[VerificationResult] | None:
        """The work; None: another job is at it, and will call `done` too. `found(damages)` before
        `done(error)`, if there are any.
        """
        running = self._checks.running
        for other in running:
            if other.start <= self.start and self.end <= other.end and self.until_offset <= other.until_offset:
                other.dones.append(done)
                return None
        running.append(self)
        self.dones.append(done)

        def finish(outcome: VerificationResult | None, error: BaseException | None) -> None:
            running.remove(self)
            damages = self.finish(outcome) if outcome is not None else []
            if damages:
                found(damages)
            failed = (
                error
                if error is None or isinstance(error, KqueueError)
                else StorageFailed(f"{self._checks.name}: {error!r}")
            )
            if failed is not None:
                logger.error("%s could not be checked, and is not served: %s", self._checks.name, failed)
            for call in self.dones:
                call(failed)

        return IoJob(f"check {self._checks.name}", self.run, finish)


class SegmentVerification:
    """What is known of the bytes that one segment's log held when it was opened: `found` of them."""

    __slots__ = ("found", "hurts", "name", "running", "walked")

    def __init__(self, name: str, base: int, found: int) -> None:
        self.name = name
        self.found = found
        self.walked = [VerifiedRange(0, 0, base)]  # in order, neither touching nor overlapping
        self.hurts: list[DamagedRange] = []
        self.running: list[VerificationTask] = []

    @property
    def is_over(self) -> bool:
        """Whether all is known, and right."""
        return not self.hurts and self.walked[0].end >= self.found

    def before(self, position: int) -> VerifiedRange:
        """The last stretch that begins at or before `position`; there is always one."""
        return self.walked[bisect_right(self.walked, position, key=_start) - 1]

    def knows(self, start: int, end: int) -> bool:
        return self.before(start).end >= min(end, self.found)

    def hurt_at(self, offset: int) -> DamagedRange | None:
        """The damage that cost the record at `offset`."""
        number = bisect_right(self.hurts, offset, key=_offset) - 1
        return self.hurts[number] if number >= 0 and offset < self.hurts[number].next_offset else None

    def hurt_after(self, position: int) -> DamagedRange | None:
        """The first damage at or after `position`."""
        number = bisect_left(self.hurts, position, key=_start)
        return self.hurts[number] if number < len(self.hurts) else None

    def add(self, outcome: VerificationResult) -> list[Damage]:
        """Take over what a check found; returns what is new of it."""
        insort(self.walked, outcome.walked)
        merged = self.walked[:1]
        for walked in self.walked[1:]:
            last = merged[-1]
            if walked.start > last.end:
                merged.append(walked)
            elif walked.end > last.end:
                merged[-1] = VerifiedRange(last.start, walked.end, walked.next_offset)
        self.walked[:] = merged
        known = {hurt.start for hurt in self.hurts}
        new = [hurt for hurt in outcome.hurts if hurt.start not in known]
        self.hurts = sorted([*self.hurts, *new])
        return [hurt.damage for hurt in new]


def scan_undamaged(
    file: Readable, start: int, end: int, hurts: Sequence[DamagedRange], chunk_bytes: int | None
) -> Iterator[tuple[int, Unit]]:
    """`scan` of whole batches without what is known to be damaged. Raises as `scan`."""
    for hurt in itertools.islice(hurts, max(bisect_right(hurts, start, key=_start) - 1, 0), None):
        if hurt.end <= start:
            continue
        if hurt.start >= end:
            break
        yield from scan(file, start, hurt.start, chunk_bytes=chunk_bytes, whole=True)
        start = hurt.end
    yield from scan(file, start, end, chunk_bytes=chunk_bytes, whole=True)


class _Wrong(Exception):
    """A batch is not what it should be."""

    def __init__(self, broken: CorruptRange) -> None:
        super().__init__(broken)
        self.broken = broken


class _Last(NamedTuple):
    """The batch that was read last: where it stands, and which offset could have been its first.
    The next one confirms its offsets.
    """

    position: int
    next_offset: int
    unit: Unit


class _Walk:
    """One check under way: `position` is where the next batch begins, none of whose offsets may lie
    below `next_offset`.
    """

    def __init__(self, check: VerificationTask, region: Region, name: str) -> None:
        self.check = check
        self.source: Readable = region.source
        self.name = name
        self.limit = region.position + region.size
        self.start = self.position = check.start
        self.next_offset = check.next_offset
        self.last: _Last | None = None
        self.hurts: list[DamagedRange] = []

    def run(self) -> VerificationResult:
        while not self._is_enough():
            try:
                self._walk()
            except _Wrong as wrong:
                if self._has_begun or self.check.proven.end >= self.start:
                    self._pass_over(wrong.broken)
                else:  # an index said that a batch begins here, and it may be the index that is wrong
                    self.start = self.position = self.check.proven.end
                    self.next_offset = self.check.proven.next_offset
        position, next_offset = self._confirmed()
        return VerificationResult(VerifiedRange(self.start, position, next_offset), tuple(self.hurts))

    @property
    def _has_begun(self) -> bool:
        return self.last is not None or bool(self.hurts)

    def _confirmed(self) -> tuple[int, int]:
        if self.last is not None and self.position < self.limit:
            return self.last.position, self.last.next_offset
        return self.position, self.next_offset

    def _is_enough(self) -> bool:
        position, next_offset = self._confirmed()
        return position >= self.limit or (position >= self.check.end and next_offset > self.check.until_offset)

    def _walk(self) -> None:
        try:
            for position, unit in scan(self.source, self.position, self.limit, check=True, chunk_bytes=READ_BYTES):
                self._check_order(position, unit)
                if self.start > self.check.proven.end and not self._has_begun:
                    self.next_offset = first_offset(
                        unit
                    )  # the index vouches for its offsets, and nobody knows those before
                self.last = _Last(position, self.next_offset, unit)
                self.position = position + unit.size
                self.next_offset = unit.last_offset + 1
                if self._is_enough():
                    return
        except CorruptBatch:
            pass
        if self.position < self.limit:
            raise _Wrong(
                corrupt_range_at(self.source, self.position, self.limit, self.next_offset - 1, self.check.next_segment)
            )

    def _check_order(self, position: int, unit: Unit) -> None:
        """Checksums do not cover offsets: these must rise, and end before the next segment. Else
        this batch lies, or the last.
        """
        first, end = first_offset(unit), self.check.next_segment
        if first >= self.next_offset and unit.last_offset < end:
            return
        last = self.last
        if (
            last is None
            or first >= self.next_offset
            or first < last.next_offset
            or first_offset(last.unit) == last.next_offset
        ):
            raise _Wrong(
                CorruptRange(
                    position, position + unit.size, f"offsets from {self.next_offset} to below {end}", _told(unit)
                )
            )
        # The last one left a gap, and without it this one fits. If it is just as long as the gap,
        # it is the one that lies; else either may.
        count = last.unit.last_offset - first_offset(last.unit) + 1
        wrong_end = position if last.next_offset + count == first else position + unit.size
        self.position, self.next_offset = last.position, last.next_offset
        raise _Wrong(
            CorruptRange(
                last.position, wrong_end, f"offsets from {last.next_offset} to below {first}", _told(last.unit)
            )
        )

    def _pass_over(self, wrong: CorruptRange) -> None:
        """Note the damage, and go on with the first whole batch after it."""
        offset = self.next_offset
        position, next_offset = self._next_whole(wrong, offset)
        damage = Damage(self.name, wrong.position, wrong.expected, wrong.found)
        self.hurts.append(DamagedRange(wrong.position, position, offset, next_offset, damage))
        self.position, self.next_offset, self.last = position, next_offset, None

    def _next_whole(self, wrong: CorruptRange, offset: int) -> tuple[int, int]:
        """Where the next whole batch begins that may follow, and its first offset; the end if there
        is none.
        """
        end, next_segment = self.limit, self.check.next_segment
        unit = batch_at(self.source, wrong.end, end) if wrong.end < end else None
        if wrong.end == end or (unit is not None and offset <= first_offset(unit) and unit.last_offset < next_segment):
            return wrong.end, next_segment if unit is None else first_offset(unit)
        position: int | None = wrong.position
        while (
            position is not None
            and (position := next_batch(self.source, position + 1, end, after_offset=offset - 1)) is not None
        ):
            unit = batch_at(self.source, position, end)
            if unit is not None and unit.last_offset < next_segment:
                return position, first_offset(unit)
        return end, next_segment


def _start(stretch: VerifiedRange | DamagedRange) -> int:
    return stretch.start


def _offset(hurt: DamagedRange) -> int:
    return hurt.offset


def _told(unit: Unit) -> str:
    return f"offsets {first_offset(unit)} to {unit.last_offset}"
