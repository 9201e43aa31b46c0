"""Overlaying of state batches, against a dictionary."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from kqueue.share.record_state import RecordState
from kqueue.share.state_batches import StateBatch, is_sorted, joined, overlaid

STATES = st.sampled_from([RecordState.AVAILABLE, RecordState.ACKNOWLEDGED])


@st.composite
def some_batches(draw: st.DrawFn) -> list[StateBatch]:
    batches, offset = [], 0
    for gap, size, state, count in draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), STATES, st.integers(1, 2)), max_size=8)
    ):
        offset += gap
        batches.append(StateBatch(offset, offset + size - 1, state, count))
        offset += size
    return batches


def by_offset(batches: list[StateBatch]) -> dict[int, tuple[RecordState, int]]:
    return {
        offset: (batch.state, batch.delivery_count)
        for batch in batches
        for offset in range(batch.first, batch.last + 1)
    }


@given(old=some_batches(), new=some_batches(), start=st.integers(0, 30))
def test_new_batches_count(old: list[StateBatch], new: list[StateBatch], start: int) -> None:
    old = joined(old)
    result = overlaid(old, new, start)
    expected = {offset: value for offset, value in (by_offset(old) | by_offset(new)).items() if offset >= start}
    assert by_offset(result) == expected
    assert is_sorted(result)
    assert joined(result) == result
