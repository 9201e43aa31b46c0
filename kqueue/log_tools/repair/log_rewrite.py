"""Rewrites log files without their damaged byte ranges, and reports what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.scanner.batch_scanner import CorruptRange, HeaderFix, ScannedBatch
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.records.batch import stamp
from kqueue.storage import File, Storage
from kqueue.storage.paths import TEMPORARY_SUFFIX

CHUNK_BYTES = 4 * 1024 * 1024


class LostRange(NamedTuple):
    """Bytes removed from a log file, and the offsets lost with them at most (end exclusive).

    `end_offset` None: the end is unknown, since no batch follows; equal to `first_offset`: no
    offset is lost.
    """

    file: str
    position: int
    size: int
    first_offset: int
    end_offset: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        if self.end_offset is None:
            what = f"what followed offset {self.first_offset - 1}"
        elif self.end_offset <= self.first_offset:
            what = "no offsets"
        elif self.end_offset == self.first_offset + 1:
            what = f"offset {self.first_offset}"
        else:
            what = f"offsets {self.first_offset} to {self.end_offset - 1}"
        why = f"expected {self.expected}, found {self.found}"
        return f"{self.file} at position {self.position}: {what}, {self.size} bytes ({why})"


@dataclass(slots=True)
class LogRewrite:
    """The changes that a log file must have.

    `kept`: (position, end) of the byte ranges that stay, in order. `header_fixes`: corrections
    by position.
    """

    base: int
    kept: list[tuple[int, int]] = field(default_factory=list)
    header_fixes: dict[int, HeaderFix] = field(default_factory=dict)
    lost: list[LostRange] = field(default_factory=list)
    end_offset: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether anything changes."""
        return bool(self.lost or self.header_fixes)


def plan_rewrite(
    storage: Storage,
    folder: str,
    base: int,
    limit: int | None,
    first: int,
    *,
    epochs: LeaderEpochCache | None = None,
    deep: bool = False,
) -> LogRewrite:
    """Read a segment's log file and return how it must change.

    Args:
        limit, first, epochs, deep: as those of the header validation.
    Raises:
        StorageFailed: also if several valid batches in a row do not fit the file's name, so that
        the name must be wrong. FileNotFoundError.
    """
    name = f"{folder}/{file_name(base, LOG)}"
    file = storage.open(name)
    cut = LogRewrite(base, end_offset=first)
    broken: list[CorruptRange] = []
    for item in validated_batches(file, file.size, base, limit=limit, first=first, epochs=epochs, deep=deep):
        if isinstance(item, CorruptRange) and item.fix is None:
            broken.append(item)
            _check_misplaced(name, broken)
            continue
        if isinstance(item, ScannedBatch):
            first_offset = item.header.last_offset if item.first_offset is None else item.first_offset
            position, end, next_offset = item.position, item.position + item.header.size, item.header.last_offset + 1
        else:
            assert item.fix is not None
            assert item.next_offset is not None
            first_offset = item.fix.base_offset
            cut.header_fixes[item.position] = item.fix
            position, end, next_offset = item.position, item.end, item.next_offset
        cut.lost += _lost(name, broken, cut.end_offset, first_offset)
        broken.clear()
        _keep(cut.kept, position, end)
        cut.end_offset = next_offset
    cut.lost += _lost(name, broken, cut.end_offset, limit)
    file.close()
    return cut


def _check_misplaced(name: str, broken: list[CorruptRange]) -> None:
    """Raise StorageFailed if two batches in a row are misplaced.

    One misplaced batch may have a damaged base offset; several are in the wrong file, and too much
    data to remove without a decision of the user.
    """
    if [item.is_misplaced for item in broken[-2:]] == [True, True]:
        where, there, expected = broken[-2].position, broken[-2].found, broken[-2].expected
        raise StorageFailed(
            f"{name} holds offsets {there} at position {where}, where {expected} can be; rename it, or take it away"
        )


def _lost(name: str, broken: list[CorruptRange], first: int, end: int | None) -> Iterator[LostRange]:
    """Return the lost ranges.

    Adjacent ranges share the missing offsets, which the first one names.
    """
    for number, item in enumerate(broken):
        start = first if number == 0 or end is None else end
        yield LostRange(name, item.position, item.end - item.position, start, end, item.expected, item.found)


def _keep(kept: list[tuple[int, int]], position: int, end: int) -> None:
    if kept and kept[-1][1] == position:
        kept[-1] = kept[-1][0], end
    else:
        kept.append((position, end))


def apply_rewrite(storage: Storage, folder: str, cut: LogRewrite) -> None:
    """Replace a log file by one with the kept ranges, and remove its indexes.

    Durability: on return. A crash leaves the old file or the new one, never the new one with the
        old indexes.
    Raises: StorageFailed.
    """
    name = f"{folder}/{file_name(cut.base, LOG)}"
    old, new = storage.open(name), storage.open(name + TEMPORARY_SUFFIX, create=True)
    new.truncate(0)
    for position, end in cut.kept:
        _append(old, position, end, new, cut.header_fixes)
    new.sync()
    old.close()
    new.close()
    for suffix in (INDEX, TIMEINDEX):
        path = f"{folder}/{file_name(cut.base, suffix)}"
        if storage.exists(path):
            storage.remove(path)
    storage.sync_folder(folder)
    storage.rename(name + TEMPORARY_SUFFIX, name)
    storage.sync_folder(folder)


def _append(old: File, position: int, end: int, new: File, header_fixes: dict[int, HeaderFix]) -> None:
    """Copy a byte range; a batch with a corrected header begins a chunk of its own."""
    while position < end:
        stop = min((at for at in header_fixes if position < at < end), default=end)
        data = bytearray(old.read_at(position, min(CHUNK_BYTES, stop - position)))
        if position in header_fixes:
            stamp(data, 0, *header_fixes[position])
        new.append(data)
        position += len(data)
