from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.spark.jobs.audit.partition_summary import (
    CELLS,
    KEYS_KEPT,
    RANGES_KEPT,
    TIMES_MAX,
    WIDTHS_MS,
    Columns,
    PartitionSummary,
    Times,
    from_json,
    merge_summaries,
    summarize,
)

Rows = list[tuple[int, int | None, int | None, int | None]]
"""Of each record: the step to its offset, time, key (its hash), bytes of its value."""
END = 1_000


def columns(rows: Rows) -> Columns:
    offsets = np.cumsum([step for step, *_ in rows])
    ms, keys, values = ([row[index] for row in rows] for index in (1, 2, 3))

    def whole(given: list[int | None]) -> np.ndarray:
        return np.array([0 if one is None else one for one in given], np.int64)

    def present(given: list[int | None]) -> np.ndarray:
        return np.array([one is not None for one in given], bool)

    key_bytes = np.array([0 if key is None else 3 for key in keys], np.int64)
    return Columns(
        offsets, whole(ms), whole(keys), key_bytes, whole(values), present(ms), present(keys), present(values)
    )


def part(whole: Columns, begin: int, end: int) -> Columns:
    return Columns(*(column[begin:end] for column in whole))


def plainly(rows: Rows) -> dict[str, object]:
    """The same, as slowly as it can be said."""
    offsets: list[int] = []
    for step, *_ in rows:
        offsets.append((offsets[-1] if offsets else 0) + step)
    times = [ms for _, ms, _, _ in rows if ms is not None]
    sizes = [(0 if key is None else 3) + (value or 0) for _, _, key, value in rows]
    gaps = [(before + 1, after) for before, after in pairwise(offsets) if after > before + 1]
    return {
        "first": offsets[0], "last": offsets[-1], "records": len(rows), "gaps": gaps, "gap_count": len(gaps),
        "missing": sum(end - first for first, end in gaps),
        "least_ms": min(times, default=None), "most_ms": max(times, default=None),
        "backward": sum(after < before for before, after in pairwise(times)),
        "backward_ms": max((max(times[: number + 1]) - ms for number, ms in enumerate(times)), default=0),
        "timeless": len(rows) - len(times),
        "keyless": sum(key is None for _, _, key, _ in rows), "tombstones": sum(value is None for *_, value in rows),
        "key_bytes": sum(3 for _, _, key, _ in rows if key is not None),
        "value_bytes": sum(value or 0 for *_, value in rows),
        "largest": (max(sizes), offsets[sizes.index(max(sizes))]),
        "keys": sorted({key for _, _, key, _ in rows if key is not None}),
    }  # fmt: skip


ROW = st.tuples(
    st.integers(1, 5),
    st.none() | st.integers(0, 10**13),
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(0, 50),
)


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=60), st.data())
def test_pieces_put_together_are_the_whole(rows: Rows, data: st.DataObject) -> None:
    whole = columns(rows)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(rows) - 1, 1)), max_size=4)) | {0, len(rows)})
    pieces = [summarize(part(whole, begin, end), 0, END) for begin, end in pairwise(cuts) if begin < end]
    summary = merge_summaries([*reversed(pieces), pieces[0]])  # a task that ran twice counts once
    assert summary is not None
    assert {name: getattr(summary, name) for name in plainly(rows)} == plainly(rows)
    assert sum(summary.cells) == sum(summary.times.counts.values()) + summary.timeless == len(rows)
    assert len(summary.times.counts) <= TIMES_MAX
    assert from_json(summary.to_json()) == summary


def test_merging_no_summaries_gives_none() -> None:
    assert merge_summaries([]) is None


def test_summary_stays_small_however_many_records() -> None:
    """However many gaps, keys and times there are."""
    count = 20_000
    many: Rows = [(2, number * 7_000, hash((number, "key")), 1) for number in range(count)]
    summary = summarize(columns(many), 0, 2 * count)
    summary = summary.plus(
        summarize(columns([(2 * count + 2, *row[1:]) if not number else row for number, row in enumerate(many)]), 0, 1)
    )
    assert (summary.gap_count, len(summary.gaps), summary.missing) == (2 * count - 1, RANGES_KEPT, 2 * count - 1)
    assert len(summary.keys) == KEYS_KEPT
    assert summary.key_count == pytest.approx(count, rel=0.1)
    assert len(summary.cells) == CELLS
    assert len(summary.to_json()) < 60_000


def test_times_are_as_fine_as_they_can_be() -> None:
    near = Times(0, {1_700_000_000 + number: 1 for number in range(TIMES_MAX)})
    assert near.coarser(0) is near
    far = near.plus(Times(0, {0: 5}))
    assert WIDTHS_MS[far.level] == 10_000
    assert far.counts[0] == 5
    assert sum(far.counts.values()) == TIMES_MAX + 5
    assert far.counts[170_000_000] == 10
    assert all(wide % narrow == 0 for narrow, wide in pairwise(WIDTHS_MS))


def test_a_time_before_1970_is_in_the_span_before() -> None:
    assert Times(0, {-1: 1, 0: 1}).coarser(1).counts == {-1: 1, 0: 1}
    assert isinstance(summarize(columns([(1, -1, None, None)]), 0, 2), PartitionSummary)
