"""State batches: ranges of offsets with their persisted state, sorted and without overlaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kqueue.share.record_state import RecordState


class StateBatch(NamedTuple):
    """The state of the records from `first` to `last`, both included."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


def joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Return sorted batches with adjacent ones of one state and delivery count as one."""
    result: list[StateBatch] = []
    for batch in batches:
        if result:
            former = result[-1]
            if former.last + 1 == batch.first and former[2:] == batch[2:]:
                result[-1] = former._replace(last=batch.last)
                continue
        result.append(batch)
    return result


def overlaid(old: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return `old` where `new` says nothing, else `new`; nothing below `start_offset`.

    Takes time in proportion to both. Args: old, new: sorted, each without overlaps.
    """
    result: list[StateBatch] = []
    position = 0  # in `old`
    rest: StateBatch | None = None  # of the last old batch, behind a new one
    for batch in new:
        while rest is not None or position < len(old):
            current = rest or old[position]
            if current.first > batch.last:
                break
            if current.first < batch.first:
                result.append(current._replace(last=min(current.last, batch.first - 1)))
            if rest is None:
                position += 1
            rest = current._replace(first=max(current.first, batch.last + 1)) if current.last > batch.last else None
            if rest is not None:
                break
        result.append(batch)
    if rest is not None:
        result.append(rest)
    result += old[position:]
    kept = (each._replace(first=max(each.first, start_offset)) for each in result if each.last >= start_offset)
    return joined(kept)


def is_sorted(batches: Sequence[StateBatch]) -> bool:
    """Return whether `batches` are sorted and without overlaps."""
    return all(former.last < later.first for former, later in itertools.pairwise(batches))
