"""A segment read from its start, whatever state it is in: what its indexes must hold, and which of its bytes are no batches.

Base offset and leader epoch lie outside of a batch's checksum. Offsets are judged by the batches on either side: where two contradict each
other, the one that leaves a gap without which the other fits is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.epochs import LeaderEpochs
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.formats.index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.index import RELATIVE_OFFSET_MAX
from kqueue.log.formats.scan import Readable, Unit, scan
from kqueue.log.formats.timeindex import ENTRY as TIME_ENTRY
from kqueue.log.formats.timeindex import NO_TIMESTAMP
from kqueue.log.formats.txnindex import AbortedTransaction
from kqueue.log.producers import Producers
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.replay import count_batch
from kqueue.log.recovery.salvage import batch_at, next_batch
from kqueue.log.recovery.verifying import Hurt, Outcome, Walked
from kqueue.log.segment import Segment
from kqueue.records.batch import BatchHeader


class Whole(NamedTuple):
    """A batch with a right checksum, in its place."""

    position: int
    unit: Unit


class Broken(NamedTuple):
    """Bytes from `start` to `end` that are no batch which can stand there."""

    start: int
    end: int
    expected: str
    found: str


def walk(file: Readable, base: int, end: int, limit: int | None = None) -> Iterator[Whole | Broken]:
    """All that stands in the first `end` bytes of a segment's log, in order, each byte in exactly one.

    Args: base: the segment's; limit: where the next segment begins, None: there is none. Raises StorageFailed.
    """
    last_max = base + RELATIVE_OFFSET_MAX if limit is None else min(limit - 1, base + RELATIVE_OFFSET_MAX)
    expected, held = base, None  # `held` is yielded once what follows does not speak against it
    for found in _raw(file, base, end, last_max):
        if isinstance(found, Broken) or not _fits(found.unit, expected, last_max):
            if held is not None:
                yield held
                expected, held = held.unit.last_offset + 1, None
            yield found if isinstance(found, Broken) else _out_of_place(found, expected)
            continue
        if held is not None:
            after = held.unit.last_offset + 1
            if _first(found.unit) < after:
                if _first(held.unit) == expected:
                    yield held
                    yield _out_of_place(found, after)
                    expected, held = after, None
                else:
                    yield _out_of_place(held, expected)
                    held = found
                continue
            yield held
            expected = after
        held = found
    if held is not None:
        yield held


def _fits(unit: Unit, expected: int, last_max: int) -> bool:
    return expected <= _first(unit) and unit.last_offset <= last_max


def _first(unit: Unit) -> int:
    """The least offset that the unit needs; a wrapper of old magic tells only its last."""
    return unit.base_offset if isinstance(unit, BatchHeader) else unit.last_offset


def _out_of_place(found: Whole, expected: int) -> Broken:
    unit = found.unit
    told = f"offsets {_first(unit)} to {unit.last_offset}"
    return Broken(found.position, found.position + unit.size, f"a batch of offsets from {expected} on", told)


def _raw(file: Readable, base: int, end: int, last_max: int) -> Iterator[Whole | Broken]:
    position, last_offset = 0, base - 1
    while position < end:
        found = f"{end - position} bytes before the end of the file"
        try:
            for at, unit in scan(file, position, end, check=True):
                yield Whole(at, unit)
                position = at + unit.size
                if unit.last_offset <= last_max:
                    last_offset = max(last_offset, unit.last_offset)
        except CorruptBatch as error:
            found = str(error)
        if position < end:
            resumed = _resume(file, position, end, last_offset)
            yield Broken(position, resumed, "a whole batch", found)
            position = resumed


def _resume(file: Readable, position: int, end: int, last_offset: int) -> int:
    """Where batches begin again: where the broken one says that it ends, if that is so, else the next that can be found."""
    with contextlib.suppress(CorruptBatch):
        for _, unit in scan(file, position, end):  # without its checksum
            after = position + unit.size
            following = batch_at(file, after, end)
            if after == end or (following is not None and _first(following) > last_offset):
                return after
            break
    found = next_batch(file, position + 1, end, after_offset=last_offset)
    return end if found is None else found


class Rebuild:
    """One segment's reading: counts its batches for `producers` and `epochs`, and gathers the entries of its indexes.

    `end`, `end_offset`: where the last whole batch ends; `damage`: what was found broken and is kept; `cut`: where the log ends before
    the file does, and why, None: it does not; `has_gaps`: offsets are missing between batches, as compaction leaves it. `run` touches
    nothing but the file, for which `source` may stand in.
    """

    def __init__(
        self,
        segment: Segment,
        folder: str,
        interval_bytes: int,
        producers: Producers,
        epochs: LeaderEpochs,
        source: Readable | None = None,
    ) -> None:
        self.segment = segment
        self.source: Readable = segment.log if source is None else source
        self.size = segment.log.size
        self.name = f"{folder}/{file_name(segment.base, LOG)}"
        self.interval_bytes = interval_bytes
        self.producers = producers
        self.epochs = epochs
        self.end = 0
        self.end_offset = segment.base
        self.damage: list[Damage] = []
        self.cut: Broken | None = None
        self.has_gaps = False
        self.aborted: list[AbortedTransaction] = []
        self._index = bytearray()
        self._times = bytearray()
        self._hurts: list[Hurt] = []  # `next_offset` -1: what follows is not known yet
        self._resumed = False
        self._epoch: tuple[int, int] | None = None  # of the last batch, and where that begins; counted once the next one bears it out
        self._last_entry = 0
        self._max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = segment.base

    def run(self, limit: int | None, *, cut_from: int | None = None, gapless: bool = False) -> None:
        """Read it all, or up to the first damage at `cut_from` or a later offset (None: damage never ends it).

        `gapless`: if no offset is missing up to the last batch, none is missing before that one. Raises StorageFailed.
        """
        for found in walk(self.source, self.segment.base, self.size, limit):
            ends = cut_from is not None and self.end_offset >= cut_from
            if isinstance(found, Whole) and found.unit.magic == 2 and _first(found.unit) > self.end_offset:
                # the last batch has none behind it to bear its offset out
                is_last = found.position + found.unit.size == self.size
                if gapless and is_last and not self.has_gaps and cut_from is not None and found.unit.last_offset >= cut_from:
                    found = _out_of_place(found, self.end_offset)
                self.has_gaps = True
            if isinstance(found, Whole):
                self._close_hurts(_first(found.unit))
                self._count(found.position, found.unit)
            elif ends:
                self.cut = found
                break
            else:
                self.damage.append(Damage(self.name, found.start, found.expected, found.found))
                self._hurts.append(Hurt(found.start, found.end, self.end_offset, -1, self.damage[-1]))
                self._resumed = True
        if limit is not None:
            self._close_hurts(limit)
        self._settle_epoch()

    def _close_hurts(self, next_offset: int) -> None:
        for number in range(len(self._hurts) - 1, -1, -1):
            hurt = self._hurts[number]
            if hurt.next_offset >= 0:
                break
            self._hurts[number] = hurt._replace(next_offset=max(next_offset, hurt.offset))

    def tell_reads(self) -> None:
        """Let readers know which bytes are right and which are not, as far as that is known; so they are not looked at once more."""
        if not self._hurts:
            self.segment.trust()
        elif all(hurt.next_offset >= 0 for hurt in self._hurts):
            self.segment.checks.add(Outcome(Walked(0, self.segment.size, self.end_offset), tuple(self._hurts)))

    @property
    def is_whole(self) -> bool:
        """Whether nothing but batches stands there, up to the end."""
        return self.end == self.segment.log.size and not self.damage

    def write_indexes(self) -> None:
        """Put the entries in place of those that are there; the log must have been cut, if it was to be. Raises StorageFailed."""
        segment = self.segment
        if self.end == segment.log.size:
            segment.replace_indexes(bytes(self._index), bytes(self._times))
            segment.seal()
            return
        if self._max_timestamp > self._indexed_timestamp:
            self._times += TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - segment.base)
        segment.index.entries.replace(bytes(self._index))
        segment.timeindex.replace(bytes(self._times))

    def write_transactions(self) -> None:
        """The same for the index of aborted transactions, where all before was counted too. Raises StorageFailed."""
        self.segment.txnindex.clear()
        for aborted in self.aborted:
            self.segment.txnindex.append(aborted)

    def _count(self, position: int, unit: Unit) -> None:
        base = self.segment.base
        if unit.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = unit.max_timestamp, unit.last_offset
        if self._resumed or position - self._last_entry > self.interval_bytes:
            # one behind damage, so that nobody has to read through it
            self._index += INDEX_ENTRY.pack(unit.last_offset - base, position)
            if self._max_timestamp > self._indexed_timestamp:
                self._times += TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - base)
                self._indexed_timestamp = self._max_timestamp
            self._last_entry = position
            self._resumed = False
        with contextlib.suppress(CorruptBatch):  # its checksum is right: so it was written
            aborted = count_batch(self.producers, self.source, position, unit)
            if aborted is not None:
                self.aborted.append(aborted)
        self._note_epoch(position, unit)
        self.end = position + unit.size
        self.end_offset = unit.last_offset + 1


    def _note_epoch(self, position: int, unit: Unit) -> None:
        """Epochs never fall, and lie outside of the checksum: where they do, it is the batch before that is wrong."""
        if not isinstance(unit, BatchHeader):
            return
        if self._epoch is not None and unit.leader_epoch < self._epoch[0] and unit.leader_epoch >= self.epochs.latest:
            wrong, offset = self._epoch
            expected = f"a leader epoch of {unit.leader_epoch} at most in the batch of offset {offset}"
            self.damage.append(Damage(self.name, None, expected, str(wrong)))
            self._epoch = None
        self._settle_epoch()
        self._epoch = unit.leader_epoch, unit.base_offset

    def _settle_epoch(self) -> None:
        if self._epoch is not None and self._epoch[0] > self.epochs.latest:
            self.epochs.assign(*self._epoch)
        self._epoch = None
