"""State batches: ranges of offsets with their persisted state, sorted and without overlaps."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from kqueue.share.record_state import RecordState

_FIRST = attrgetter("first")


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

    Only what lies between the first and the last of `new` is looked at; the rest is copied.
    Args: old, new: sorted, each without overlaps.
    """
    old, new = _from(old, start_offset), _from(new, start_offset)
    if not new:
        return old
    begin = max(bisect_right(old, new[0].first - 1, key=_FIRST) - 1, 0)
    stop = bisect_right(old, new[-1].last + 1, key=_FIRST)
    return [*old[:begin], *joined(_merged(old[begin:stop], new)), *old[stop:]]


def _from(batches: Sequence[StateBatch], offset: int) -> list[StateBatch]:
    number = max(bisect_right(batches, offset, key=_FIRST) - 1, 0)
    left = list(batches[number:])
    if left and left[0].first < offset:
        if left[0].last < offset:
            del left[0]
        else:
            left[0] = left[0]._replace(first=offset)
    return left


def _merged(old: Sequence[StateBatch], new: Sequence[StateBatch]) -> list[StateBatch]:
    result: list[StateBatch] = []
    position = 0  # in `old`
    rest: StateBatch | None = None  # of the last old batch, behind a new one
    for batch in new:
        while rest is not None or position < len(old):
            current = rest or old[position]
            if current.first > batch.last:
                break
            if current.first < batch.first:
                result.append(current if current.last < batch.first else current._replace(last=batch.first - 1))
            if rest is None:
                position += 1
            rest = current._replace(first=max(current.first, batch.last + 1)) if current.last > batch.last else None
            if rest is not None:
                break
        result.append(batch)
    if rest is not None:
        result.append(rest)
    result += old[position:]
    return result


def is_sorted(batches: Sequence[StateBatch]) -> bool:
    """Return whether `batches` are sorted and without overlaps."""
    return all(former.last < later.first for former, later in itertools.pairwise(batches))
