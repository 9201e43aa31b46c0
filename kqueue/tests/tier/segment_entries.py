"""Entries of a manifest without objects."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from kqueue.tier.formats.segments import IndexSizes, TieredSegment

ids = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")


def entry(start_offset: int, end_offset: int, **fields: Any) -> TieredSegment:
    """Return an entry of 100 bytes per offset, written by the leader of epoch 0."""
    defaults: dict[str, Any] = {
        "object_id": f"{start_offset:016x}{end_offset:016x}",
        "base_offset": start_offset,
        "start_offset": start_offset,
        "end_offset": end_offset,
        "size": 100 * (end_offset - start_offset),
        "max_timestamp": 1000 + end_offset,
        "crc": 0xC0FFEE,
        "indexes": IndexSizes(16, 24, 0, 10, 8),
        "indexes_crc": 7,
        "epochs": ((0, start_offset),),
        "unstable_offset": end_offset,
        "leader_epoch": 0,
        "broker": 1,
        "copied_ms": 5,
    }
    return TieredSegment(**defaults | fields)


@st.composite
def entries(draw: st.DrawFn, *, start: int | None = None) -> TieredSegment:
    """Draw an entry with valid fields; `start`: its first offset."""
    base = draw(st.integers(0, 2**40)) if start is None else start
    first = base + draw(st.integers(0, 100)) if start is None else start
    end = first + draw(st.integers(1, 10_000))
    starts = sorted(draw(st.sets(st.integers(first, end - 1), max_size=4)))
    epochs = sorted(draw(st.sets(st.integers(0, 2**31 - 1), min_size=len(starts), max_size=len(starts))))
    return TieredSegment(
        object_id=draw(ids),
        base_offset=base,
        start_offset=first,
        end_offset=end,
        size=draw(st.integers(0, 2**31 - 1)),
        max_timestamp=draw(st.integers(-1, 2**62)),
        crc=draw(st.integers(0, 2**32 - 1)),
        indexes=IndexSizes(*draw(st.tuples(*[st.integers(0, 2**20)] * 5))),
        indexes_crc=draw(st.integers(0, 2**32 - 1)),
        epochs=tuple(zip(epochs, starts, strict=True)),
        unstable_offset=draw(st.integers(0, end)),
        leader_epoch=draw(st.integers(0, 2**31 - 1)),
        broker=draw(st.integers(-1, 2**31 - 1)),
        copied_ms=draw(st.integers(0, 2**50)),
        is_cut=draw(st.booleans()),
    )


@st.composite
def ordered_entries(draw: st.DrawFn, *, max_size: int = 5) -> list[TieredSegment]:
    """Draw entries in the order of their offsets."""
    offset, drawn = draw(st.integers(0, 1000)), []
    for _ in range(draw(st.integers(0, max_size))):
        drawn.append(draw(entries(start=offset)))
        offset = drawn[-1].end_offset + draw(st.integers(0, 3))
    assert all(before.end_offset <= after.start_offset for before, after in pairwise(drawn))
    return drawn
