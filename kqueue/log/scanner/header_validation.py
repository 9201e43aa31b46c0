"""Every byte of a segment's log file: whole batches, and the stretches between them that are none.

Base offset and leader epoch lie outside of a batch's checksum. They are judged by the batches on
either side: where two contradict each other in their offsets, the one that leaves a gap without
which the other fits is wrong. Where the neighbours leave but one value that can be right, a broken
stretch says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, PluginError, UnsupportedCodec
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.scanner.batch_scanner import Readable, Unit, first_offset, scan
from kqueue.log.scanner.resync import batch_at, next_batch
from kqueue.records.any_format import check_entry, entry_records
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    HEADER,
    LENGTH_FIELD_END,
    MAGIC_POSITION,
    BatchHeader,
    iter_records,
    read_header,
    stated_size,
)
from kqueue.records.message_set import read_entry

UNKNOWN_EPOCH = -1


class ValidBatch(NamedTuple):
    """A batch that is right. `records`: how many it has, `note`: what is odd about it, if it was
    looked into; empty: nothing.
    """

    position: int
    unit: Unit
    records: int
    note: str = ""

    @property
    def first_offset(self) -> int | None:
        """None: a wrapper of old magic knows only its last."""
        unit = self.unit
        if isinstance(unit, BatchHeader):
            return unit.base_offset
        return unit.offset if not unit.codec_id else None


class HeaderFix(NamedTuple):
    """What must stand in a batch instead; both lie outside of the checksum."""

    base_offset: int
    leader_epoch: int


class CorruptRange(NamedTuple):
    """The bytes from `position` to `end` are no batch that can stand there. `stamp`: with it they
    would be; None: they are lost.

    `misplaced`: they are a whole batch, and only its offsets don't fit.
    """

    position: int
    end: int
    expected: str
    found: str
    stamp: HeaderFix | None = None
    next_offset: int | None = None  # with a stamp: where the log goes on after it
    misplaced: bool = False


def validated_batches(
    file: Readable,
    size: int,
    base: int,
    *,
    limit: int | None = None,
    first: int | None = None,
    judges_epochs: bool = True,
    epochs: LeaderEpochCache | None = None,
    deep: bool = False,
) -> Iterator[ValidBatch | CorruptRange]:
    """All that stands in the first `size` bytes of a log file, in order, each byte in exactly one.

    Args: base: the segment's; limit: offset at which the next segment begins, None: there is none.
    first: the first offset that may come, if it is not `base`. judges_epochs: a batch whose leader
    epoch can't be right is broken, too. epochs: what the checkpoint says of them; two that agree
    against a third are right. deep: look at every record, too. Raises StorageFailed. Allocates a
    chunk, or one batch that lies whole in the file.
    """
    order = _Order(base, base if first is None else first, limit, epochs, judges_epochs)
    return order.judged(_raw(file, size, base, limit, order.last_max, deep))


def corrupt_range_at(
    file: Readable, position: int, end: int, last_offset: int, limit: int | None, *, deep: bool = False
) -> CorruptRange:
    """What stands at `position`, where `scan` finds no whole batch before `end`, up to where
    batches begin again.

    Args: last_offset: of the batch before it; limit: as for `validated_batches`. Raises StorageFailed.
    """
    expected, found, size = _diagnosed(file, position, end, deep)
    return CorruptRange(position, _resume(file, position, end, size, last_offset, limit), expected, found)


def misplaced_range(
    one: ValidBatch, expected: int, bound: int | None = None, stamp: HeaderFix | None = None
) -> CorruptRange:
    """Say of a batch that its offsets can't be right: `expected` is the least that can, `bound` is
    above them all (None: nobody knows).
    """
    wanted = f"offsets from {expected} {'on' if bound is None or bound <= expected else f'to {bound - 1}'}"
    found = f"{first_offset(one.unit)} to {one.unit.last_offset}"
    return CorruptRange(
        one.position, one.position + one.unit.size, wanted, found, stamp, bound if stamp else None, misplaced=True
    )


# --- bytes


def _raw(
    file: Readable, end: int, base: int, limit: int | None, last_max: int, deep: bool
) -> Iterator[ValidBatch | CorruptRange]:
    position, last_offset = 0, base - 1
    while position < end:
        try:
            for at, unit in scan(file, position, end, check=True):
                yield (
                    _look_into(at, unit, file.read_at(at, unit.size))
                    if deep
                    else ValidBatch(at, unit, _record_count(unit))
                )
                position = at + unit.size
                if unit.last_offset <= last_max:
                    last_offset = max(last_offset, unit.last_offset)
        except CorruptBatch:
            pass
        if position < end:
            broken = corrupt_range_at(file, position, end, last_offset, limit, deep=deep)
            yield broken
            position = broken.end


class _Wrong(NamedTuple):
    """What is wrong with a batch. `size`: what it says of itself, 0 where that can't be."""

    expected: str
    found: str
    size: int = 0


_SOUND_NOW = _Wrong("bytes that read the same each time", "a batch that is whole now, and was not before")


def _diagnosed(file: Readable, position: int, end: int, deep: bool) -> _Wrong:
    left = end - position
    head = file.read_at(position, min(BATCH_OVERHEAD, left))
    if len(head) <= MAGIC_POSITION:
        return _Wrong("a batch", f"{len(head)} bytes up to the end of the file")
    size, magic = stated_size(head, 0), head[MAGIC_POSITION]
    if size <= LENGTH_FIELD_END or magic > 2:
        return _Wrong("a batch", f"length {size - LENGTH_FIELD_END}, magic {magic}")
    if size > left:
        return _Wrong(f"{size} bytes of a batch", f"{left} up to the end of the file")
    data = file.read_at(position, size)
    if len(data) < size:
        return _Wrong(f"{size} bytes of a batch", f"{len(data)} up to the end of the file")
    try:
        return _wrong_batch(data, deep) if magic == 2 else _wrong_entry(data, deep)
    except CorruptBatch as error:
        return _Wrong("a batch of its format", _without_position(error), size)


def _resume(file: Readable, position: int, end: int, size: int, last_offset: int, limit: int | None) -> int:
    """Where a batch begins again: where the bad one's length says, if that leads to one (or the
    end), else the next that can be found.
    """
    after = position + size
    if size and after <= end:
        following = batch_at(file, after, end)
        if following is not None or after == end:
            bound = limit if following is None else first_offset(following)
            skipped = _skipped(file, position, after, last_offset, bound)
            return after if skipped is None else skipped
    found = next_batch(file, position + 1, end, after_offset=last_offset)
    return end if found is None else found


def _skipped(file: Readable, position: int, after: int, last_offset: int, bound: int | None) -> int | None:
    """Where whole batches begin that the bad one's length passes over, because the length itself is
    wrong; None: there are none.

    A record's value may look like a batch: so nothing is searched where the bad one's own offsets
    reach up to `bound`, which follows it, and what is found must lead to `after`.
    """
    base, _, _, magic, _, _, delta, *_ = HEADER.unpack(
        file.read_at(position, BATCH_OVERHEAD).ljust(BATCH_OVERHEAD, b"\0")
    )
    if bound is None or base + (delta if magic == 2 else 0) + 1 == bound:
        return None
    found = next_batch(file, position + 1, after, after_offset=last_offset)
    if found is None:
        return None
    try:
        for _, unit in scan(file, found, after, check=True, whole=True):
            if first_offset(unit) <= last_offset or unit.last_offset >= bound:
                return None
            last_offset = unit.last_offset
    except CorruptBatch:
        return None
    return found


def _wrong_batch(data: bytes, deep: bool) -> _Wrong:
    stands = HEADER.unpack_from(data.ljust(BATCH_OVERHEAD, b"\0"))[4]
    given = crc32c(memoryview(data)[CRC_START:])
    try:
        header, fault = read_header(data), ""
    except CorruptBatch as error:
        if given == stands:
            raise
        fault = f" ({_without_position(error)})"
    if given != stands:
        return _Wrong(f"checksum {stands:#010x}", f"bytes that give {given:#010x}{fault}", len(data))
    if deep:
        _look_into(0, header, data)
    return _SOUND_NOW


def _without_position(error: CorruptBatch) -> str:
    # such messages count from where their buffer begins; whoever reads ours has the position in the
    # file
    return re.sub(r" at position \d+", "", str(error))


def _wrong_entry(data: bytes, deep: bool) -> _Wrong:
    entry = read_entry(data, 0, len(data))
    if entry is None:
        return _Wrong("a message of old format", "one that is cut off by its own length")
    check_entry(data, entry)
    if deep:
        _look_into(0, entry, data)
    return _SOUND_NOW


def _look_into(position: int, unit: Unit, data: bytes) -> ValidBatch:
    """Read all records of a batch, whose bytes are `data`. Raises CorruptBatch: lengths, counts,
    offset deltas.
    """
    count, note = _record_count(unit), ""
    try:
        if isinstance(unit, BatchHeader):
            latest = max((record.timestamp for record in iter_records(data)), default=unit.max_timestamp)
            if latest != unit.max_timestamp:
                note = f"max timestamp {unit.max_timestamp}, but the latest record's is {latest}"
        else:
            count = len(entry_records(unit, DECOMPRESSED_BYTES_MAX))
    except (UnsupportedCodec, PluginError) as error:
        note = str(error)
    return ValidBatch(position, unit, count, note)


def _record_count(unit: Unit) -> int:
    return unit.record_count if isinstance(unit, BatchHeader) else 1


# --- order


class _Order:
    """Looks at each batch with the one before it and the one after it. `last_max`: the greatest
    offset that the segment can hold.
    """

    def __init__(
        self, base: int, expected: int, limit: int | None, epochs: LeaderEpochCache | None, judges_epochs: bool
    ) -> None:
        self.expected = expected
        self.limit = limit
        self.last_max = base + RELATIVE_OFFSET_MAX if limit is None else min(limit - 1, base + RELATIVE_OFFSET_MAX)
        self.epoch = UNKNOWN_EPOCH
        self.epochs = epochs
        self.judges_epochs = judges_epochs

    def judged(self, found: Iterator[ValidBatch | CorruptRange]) -> Iterator[ValidBatch | CorruptRange]:
        one = next(found, None)
        while one is not None:
            following = next(found, None)
            if isinstance(one, ValidBatch):
                one = self._out_of_place(one, following) or self._out_of_epoch(one, following) or one
            yield one
            if isinstance(one, ValidBatch):
                self.expected = one.unit.last_offset + 1
                self.epoch = one.unit.leader_epoch if isinstance(one.unit, BatchHeader) else self.epoch
            elif one.next_offset is not None:
                self.expected = one.next_offset
            one = following

    def _out_of_place(self, one: ValidBatch, following: ValidBatch | CorruptRange | None) -> CorruptRange | None:
        """None: a batch of these offsets can stand where it does."""
        unit, expected = one.unit, self.expected
        if expected <= first_offset(unit) and unit.last_offset <= self.last_max and not self._jumps(unit, following):
            return None
        bound = (
            following.first_offset if isinstance(following, ValidBatch) else self.limit if following is None else None
        )
        stamp = None
        if isinstance(unit, BatchHeader) and bound is not None and bound - expected == unit.last_offset_delta + 1:
            stamp = HeaderFix(expected, unit.leader_epoch)
        return misplaced_range(one, expected, self.limit if bound is None else bound, stamp)

    def _jumps(self, unit: Unit, following: ValidBatch | CorruptRange | None) -> bool:
        """Whether a batch leaves a gap only to overlap with what follows: then it is this one that
        is wrong, not all that come after it.
        """
        if (
            first_offset(unit) == self.expected
            or not isinstance(following, ValidBatch)
            or following.unit.last_offset > self.last_max
        ):
            return False
        return self.expected <= first_offset(following.unit) <= unit.last_offset

    def _out_of_epoch(self, one: ValidBatch, following: ValidBatch | CorruptRange | None) -> CorruptRange | None:
        """None: a batch of this leader epoch can stand where it does, or the checkpoint says the
        same of it.
        """
        unit, before = one.unit, self.epoch
        if not self.judges_epochs or not isinstance(unit, BatchHeader):
            return None
        after = (
            following.unit.leader_epoch
            if isinstance(following, ValidBatch) and isinstance(following.unit, BatchHeader)
            else UNKNOWN_EPOCH
        )
        right = _epoch_between(before, unit.leader_epoch, after)
        if right == unit.leader_epoch:
            return None
        said = self.epochs.epoch_at(unit.base_offset) if self.epochs is not None else UNKNOWN_EPOCH
        if said == unit.leader_epoch:
            return None
        if said >= max(before, 0) and (after < 0 or said <= after):
            right = said
        end, stamp = one.position + unit.size, HeaderFix(unit.base_offset, right)
        return CorruptRange(
            one.position, end, f"leader epoch {right}", str(unit.leader_epoch), stamp, unit.last_offset + 1
        )


def _epoch_between(before: int, epoch: int, after: int) -> int:
    """The leader epoch that a batch has if its neighbours are right; epochs never fall. -1 (none)
    is always right.
    """
    if epoch == UNKNOWN_EPOCH:
        return epoch
    if epoch < UNKNOWN_EPOCH:
        return before if before >= 0 else after if after >= 0 else UNKNOWN_EPOCH
    if epoch < before:
        return before
    if before <= after < epoch and after >= 0:
        return before if before >= 0 else after
    return epoch


__all__ = ["CorruptRange", "HeaderFix", "ValidBatch", "corrupt_range_at", "misplaced_range", "validated_batches"]
