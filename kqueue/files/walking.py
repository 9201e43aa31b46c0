"""Every byte of a segment's log file: whole batches, and the stretches between them that are none.

Base offset and leader epoch lie outside of a batch's checksum. They are judged by the batches on either side, and where these leave but one
value that can be right, a broken stretch says which.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.log.formats.epochs import LeaderEpochs
from kqueue.log.formats.index import RELATIVE_OFFSET_MAX
from kqueue.log.formats.scan import Unit
from kqueue.log.recovery.salvage import next_batch
from kqueue.records.batch import BATCH_OVERHEAD, CRC_START, DECOMPRESSED_BYTES_MAX, MAGIC_POSITION, BatchHeader, iter_records, read_header
from kqueue.records.legacy import check_entry, entry_records
from kqueue.records.message_set import read_entry
from kqueue.storage import File

CHUNK_BYTES = 1024 * 1024
UNKNOWN_EPOCH = -1
_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_END = 12


class Whole(NamedTuple):
    """A batch that is right. `records`: how many it has, `note`: what is odd about it, if it was looked into; empty: nothing."""

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


class Stamp(NamedTuple):
    """What must stand in a batch instead; both lie outside of the checksum."""

    base_offset: int
    leader_epoch: int


class Broken(NamedTuple):
    """The bytes from `position` to `end` are no batch that can stand there. `stamp`: with it they would be; None: they are lost.

    `misplaced`: they are a whole batch, and only its offsets don't fit.
    """

    position: int
    end: int
    expected: str
    found: str
    stamp: Stamp | None = None
    next_offset: int | None = None  # with a stamp: where the log goes on after it
    misplaced: bool = False


class _Wrong(Exception):
    """A batch that is not whole; `size`: what it says of itself, 0 where that can't be."""

    def __init__(self, expected: str, found: str, size: int = 0) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.size = size


def walk(
    file: File,
    size: int,
    base: int,
    *,
    limit: int | None = None,
    first: int | None = None,
    epochs: LeaderEpochs | None = None,
    deep: bool = False,
) -> Iterator[Whole | Broken]:
    """All that stands in the first `size` bytes of a log file, in order, each byte in exactly one.

    Args: base: the segment's; limit: offset at which the next segment begins, None: there is none. first: the first offset that may
    come, if it is not `base`. epochs: what the checkpoint says of them; two that agree against a third are right. deep: look at every
    record, too.
    Raises StorageFailed. Allocates a chunk, or one batch that lies whole in the file.
    """
    return _judged(_raw(file, size, base, deep), base if first is None else first, base, limit, epochs)


# --- bytes


class _Window:
    """The part of a file that is in memory."""

    def __init__(self, file: File, end: int) -> None:
        self.file = file
        self.end = end
        self.start = 0
        self.data = b""

    def get(self, position: int, size: int) -> int:
        """Have `size` bytes from `position` on in `data`; returns where they begin there. Raises _Wrong: the file ends before."""
        at = position - self.start
        if at < 0 or at + size > len(self.data):
            self.data, self.start, at = self.file.read_at(position, min(max(CHUNK_BYTES, size), self.end - position)), position, 0
            if len(self.data) < size:
                raise _Wrong(f"{size} bytes of a batch", f"{len(self.data)} up to the end of the file")
        return at


def _raw(file: File, end: int, base: int, deep: bool) -> Iterator[Whole | Broken]:
    window = _Window(file, end)
    position, last_offset = 0, base - 1
    while position < end:
        try:
            whole = _read(window, position, deep)
        except _Wrong as wrong:
            resumed = _resume(window, position, wrong.size, last_offset)
            yield Broken(position, resumed, wrong.expected, wrong.found)
            position = resumed
            continue
        yield whole
        position += whole.unit.size
        last_offset = max(last_offset, whole.unit.last_offset) if whole.unit.last_offset - base <= RELATIVE_OFFSET_MAX else last_offset


def _resume(window: _Window, position: int, size: int, last_offset: int) -> int:
    """Where a batch begins again: where the bad one's length says, if that leads to one (or the end), else the next that can be found."""
    after = position + size
    if size and after <= window.end:
        try:
            if after == window.end or _read(window, after, False):
                return after
        except _Wrong:
            pass
    found = next_batch(window.file, position + 1, window.end, after_offset=last_offset)
    return window.end if found is None else found


def _read(window: _Window, position: int, deep: bool) -> Whole:
    left = window.end - position
    if left <= MAGIC_POSITION:
        raise _Wrong("a batch", f"{left} bytes up to the end of the file")
    at = window.get(position, min(left, BATCH_OVERHEAD))
    (length,) = _LENGTH.unpack_from(window.data, at + _LENGTH_POSITION)
    size, magic = length + _LENGTH_END, window.data[at + MAGIC_POSITION]
    if length <= 0 or magic > 2:
        raise _Wrong("a batch", f"length {length}, magic {magic}")
    if size > left:
        raise _Wrong(f"{size} bytes of a batch", f"{left} up to the end of the file")
    at = window.get(position, size)
    try:
        return _batch(window.data, at, position, deep) if magic == 2 else _entry(window.data, at, position, deep)
    except CorruptBatch as error:
        raise _Wrong("a batch of its format", _without_position(error), size) from None


def _batch(data: bytes, at: int, position: int, deep: bool) -> Whole:
    header = read_header(data, at)
    with memoryview(data) as view, view[at + CRC_START : at + header.size] as covered:
        crc = crc32c(covered)
    if crc != header.crc:
        raise _Wrong(f"checksum {header.crc:#010x}", f"bytes that give {crc:#010x}", header.size)
    return Whole(position, header, header.record_count, _look_into(data, at, header) if deep else "")


def _entry(data: bytes, at: int, position: int, deep: bool) -> Whole:
    entry = read_entry(data, at, len(data))
    if entry is None:
        raise _Wrong("a message of old format", "one that is cut off by its own length")
    check_entry(data, entry)
    count, note = 1, ""
    if deep:
        try:
            count = len(entry_records(entry, DECOMPRESSED_BYTES_MAX))
        except UnsupportedCodec as error:
            note = str(error)
    return Whole(position, entry, count, note)


def _look_into(data: bytes, at: int, header: BatchHeader) -> str:
    """Read all records; returns what is odd. Raises CorruptBatch: lengths, counts, offset deltas."""
    try:
        latest = max((record.timestamp for record in iter_records(data, at)), default=header.max_timestamp)
    except UnsupportedCodec as error:
        return str(error)
    return "" if latest == header.max_timestamp else f"max timestamp {header.max_timestamp}, but the latest record's is {latest}"


def _without_position(error: CorruptBatch) -> str:
    # such messages count from where their buffer begins; whoever reads ours has the position in the file
    return re.sub(r" at position \d+", "", str(error))


# --- order


def _judged(
    found: Iterator[Whole | Broken], expected: int, base: int, limit: int | None, epochs: LeaderEpochs | None
) -> Iterator[Whole | Broken]:
    """Look at each batch with the one before it (`expected`, `epoch`) and the one after it."""
    epoch = UNKNOWN_EPOCH
    one = next(found, None)
    while one is not None:
        following = next(found, None)
        if isinstance(one, Whole):
            one = _out_of_place(one, expected, base, limit, following) or _out_of_epoch(one, epoch, epochs, following) or one
        yield one
        if isinstance(one, Whole):
            expected = one.unit.last_offset + 1
            epoch = one.unit.leader_epoch if isinstance(one.unit, BatchHeader) else epoch
        elif one.next_offset is not None:
            expected = one.next_offset
        one = following


def _out_of_place(one: Whole, expected: int, base: int, limit: int | None, following: Whole | Broken | None) -> Broken | None:
    """None: a batch of these offsets can stand where it does."""
    unit = one.unit
    after = following if isinstance(following, Whole) else None
    bound = after.first_offset if after is not None else limit if following is None else None
    first, last = one.first_offset, unit.last_offset
    end = one.position + unit.size
    last_max = min(base + RELATIVE_OFFSET_MAX, limit - 1 if limit is not None else base + RELATIVE_OFFSET_MAX)
    too_early = (last if first is None else first) < expected
    if too_early or last > last_max or _jumps(first, last, expected, bound):
        known = bound if bound is not None else limit
        wanted = f"offsets from {expected} {'on' if known is None or known <= expected else f'to {known - 1}'}"
        stamp = None
        if isinstance(unit, BatchHeader) and bound is not None and bound - expected == unit.last_offset_delta + 1:
            stamp = Stamp(expected, unit.leader_epoch)
        found = f"{last if first is None else first} to {last}"
        return Broken(one.position, end, wanted, found, stamp, bound if stamp else None, misplaced=True)
    return None


def _out_of_epoch(one: Whole, before: int, epochs: LeaderEpochs | None, following: Whole | Broken | None) -> Broken | None:
    """None: a batch of this leader epoch can stand where it does, or the checkpoint says the same of it."""
    unit = one.unit
    if not isinstance(unit, BatchHeader):
        return None
    after = following.unit.leader_epoch if isinstance(following, Whole) and isinstance(following.unit, BatchHeader) else UNKNOWN_EPOCH
    right = _epoch_between(before, unit.leader_epoch, after)
    if right == unit.leader_epoch:
        return None
    said = epochs.epoch_at(unit.base_offset) if epochs is not None else UNKNOWN_EPOCH
    if said == unit.leader_epoch:
        return None
    if said >= max(before, 0) and (after < 0 or said <= after):
        right = said
    end, stamp = one.position + unit.size, Stamp(unit.base_offset, right)
    return Broken(one.position, end, f"leader epoch {right}", str(unit.leader_epoch), stamp, unit.last_offset + 1)


def _jumps(first: int | None, last: int, expected: int, bound: int | None) -> bool:
    """Whether a batch leaves a gap only to overlap with what follows: then it is this one that is wrong, not all that come after it."""
    return first is not None and bound is not None and first > expected and expected <= bound <= last


def _epoch_between(before: int, epoch: int, after: int) -> int:
    """The leader epoch that a batch has if its neighbours are right; epochs never fall. -1 (none) is always right."""
    if epoch == UNKNOWN_EPOCH:
        return epoch
    if epoch < UNKNOWN_EPOCH:
        return before if before >= 0 else after if after >= 0 else UNKNOWN_EPOCH
    if epoch < before:
        return before
    if before <= after < epoch and after >= 0:
        return before if before >= 0 else after
    return epoch


__all__ = ["Broken", "Stamp", "Whole", "walk"]
