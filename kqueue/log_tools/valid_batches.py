"""The valid batches of a segment in order; damage is reported and skipped.

This is the report policy of `kqueue.log.scanner` (`Segment.walk`), with the offsets checked and the
scan resumed by `resync.resume_position`. It differs from `scan_resyncing` in the end of the last
segment: a batch that is cut off there is no damage, because a broker may be appending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.recovery.damage import Damage
from kqueue.log.scanner.resync import next_batch, resume_position
from kqueue.log_tools.index_lookup import position_of
from kqueue.log_tools.segments import Batch, InvalidBytes, Segment
from kqueue.storage import File

DamageReporter = Callable[[Damage], None]
OnDamage = Literal["raise", "skip"] | Callable[[Damage], object]


def damage_reporter(on_damage: OnDamage) -> DamageReporter:
    """Return the function that `valid_batches` calls for damage, as `on_damage` asks."""

    def report(damage: Damage) -> None:
        if on_damage == "raise":
            raise CorruptBatch(str(damage))
        if callable(on_damage):
            on_damage(damage)

    return report


def valid_batches(
    segment: Segment, start_offset: int, next_base: int | None, *, check: bool, report: DamageReporter
) -> Iterator[Batch]:
    """Return the valid batches from the one that holds `start_offset` on.

    Args:
        next_base: base offset of the next segment; None: this is the last one, to whose end a
            broker may be appending.
        check: verify checksums; else only headers are read.
        report: receives each damage; if it returns, reading resumes at the next valid batch.
    Raises: StorageFailed, FileNotFoundError; what `report` raises.
    """
    reader = _Reader(segment, next_base)
    position: int | None = position_of(segment, start_offset)
    while position is not None:
        for item in segment.walk(position, check=check):
            damage = reader.damage_of(item)
            if damage is not None:
                report(damage)
                position = reader.resume_after(item)
                break
            if isinstance(item, InvalidBytes):
                return
            reader.expected = item.next_offset
            if item.last_offset >= start_offset:
                yield item
        else:
            return


class _Reader:
    """Validates the offsets of a segment. `expected`: the lowest offset that may follow."""

    def __init__(self, segment: Segment, next_base: int | None) -> None:
        self.segment = segment
        self.is_last = next_base is None
        self.limit = segment.base_offset + RELATIVE_OFFSET_MAX + 1 if next_base is None else next_base
        self.expected = segment.base_offset

    def damage_of(self, item: Batch | InvalidBytes) -> Damage | None:
        location = self.segment.location()
        if isinstance(item, InvalidBytes):
            if item.is_tail and self.is_last and not self._precedes_batches(item):
                return None
            return Damage(location, item.position, item.expected, item.found)
        if item.problem is not None:
            return Damage(location, item.position, item.problem.expected, item.problem.found)
        if item.base_offset < self.expected or item.last_offset >= self.limit:
            has_offsets = self.expected < self.limit
            within = (
                f"offsets from {self.expected} to {self.limit - 1}"
                if has_offsets
                else f"no offset from {self.limit} on"
            )
            return Damage(location, item.position, within, f"{item.base_offset} to {item.last_offset}")
        return None

    def resume_after(self, item: Batch | InvalidBytes) -> int | None:
        """Return the position of the next batch; None: no valid one follows."""
        size = self.segment.size
        if isinstance(item, Batch) and item.is_valid:
            return item.end  # only its offsets are wrong
        batch_size = item.size if isinstance(item, Batch) else 0
        limit = None if self.is_last else self.limit
        position = resume_position(self._open(), item.position, batch_size, size, self.expected - 1, limit)
        return position if position < size else None

    def _precedes_batches(self, tail: InvalidBytes) -> bool:
        """Return whether batches follow an apparently incomplete one.

        Then its length is damaged.
        """
        return (
            not tail.is_zero
            and next_batch(self._open(), tail.position + 1, self.segment.size, after_offset=self.expected - 1)
            is not None
        )

    def _open(self) -> File:
        return self.segment.storage.open(self.segment.path(), size=self.segment.size)
