from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.tests.thorough import examples
from kqueue.tests.tier.segment_entries import entry
from kqueue.tier.formats.manifest_root import NO_EPOCH
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.lineage import Lineage


def epochs_of(log: list[int]) -> list[EpochEntry]:
    """Return the leader epochs of a log, which is given as the epoch of each of its records."""
    epochs = [(NO_EPOCH, 0), *((epoch, offset) for offset, epoch in enumerate(log))]
    return [after for before, after in pairwise(epochs) if before[0] != after[0]]


def segment_of(log: list[int], start: int, end: int) -> TieredSegment:
    """Return the segment of a log with these offsets."""
    inner = [(epoch, start + offset) for epoch, offset in epochs_of(log[start:end])]
    return entry(start, end, epochs=tuple(inner))


def lineage_of(log: list[int], leader_epoch: int, *, known_from: int = 0) -> Lineage:
    """Return the lineage of a leader with this log; `known_from`: where its epochs begin."""
    known = epochs_of(log[known_from:])
    known = [(epoch, known_from + start) for epoch, start in known]
    return Lineage(known, leader_epoch, len(log))


rising = st.lists(st.integers(0, 5), max_size=12).map(sorted)
"""A log: the epoch of each record."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw the logs of a former leader and of its successor, whose epoch is 9.

    Up to some offset they are the same. What follows in the former leader's lacks the successor,
    which was elected without it; each epoch has one leader.
    """
    common = draw(rising) if draw(st.booleans()) else [NO_EPOCH] * draw(st.integers(0, 3)) + draw(rising)
    theirs = [max([0, *common])] * draw(st.integers(0, 3)) + sorted(draw(st.lists(st.sampled_from([6, 8]), max_size=6)))
    ours = sorted(draw(st.lists(st.just(7), max_size=6)))
    return [*common, *theirs], [*common, *ours]


@settings(max_examples=examples(1000, 200))
@given(histories(), st.data())
def test_common_end_is_the_first_offset_where_the_logs_differ(
    logs: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    theirs, ours = logs
    if not theirs:
        return
    start = data.draw(st.integers(0, len(theirs) - 1))
    end = data.draw(st.integers(start + 1, len(theirs)))
    differs = next((offset for offset in range(start, end) if ours[offset : offset + 1] != [theirs[offset]]), end)
    assert lineage_of(ours, 9).common_end(segment_of(theirs, start, end)) == differs


@settings(max_examples=examples(1000, 200))
@given(rising.filter(bool), st.data())
def test_log_whose_epochs_begin_later_contradicts_nothing_of_its_own_past(log: list[int], data: st.DataObject) -> None:
    known_from = data.draw(st.integers(0, len(log)))
    start = data.draw(st.integers(0, len(log) - 1))
    end = data.draw(st.integers(start + 1, len(log)))
    assert lineage_of(log, 9, known_from=known_from).common_end(segment_of(log, start, end)) == end


@pytest.mark.parametrize(
    ("epochs", "segment", "common"),
    [
        pytest.param([], entry(0, 30, epochs=((3, 0),)), 20, id="log without epochs, shorter"),
        pytest.param([], entry(0, 20, epochs=((3, 0),)), 20, id="log without epochs, as long"),
        pytest.param([(4, 10)], entry(0, 10, epochs=((5, 0),)), 0, id="newer epoch below what is known"),
        pytest.param([(4, 10)], entry(0, 15, epochs=((4, 0),)), 15, id="same epoch begins earlier"),
        pytest.param([(4, 10)], entry(0, 15, epochs=((3, 0),)), 10, id="older epoch goes on too long"),
        pytest.param([(4, 10)], entry(0, 25, epochs=((3, 0), (4, 10))), 20, id="log ends within the segment"),
        pytest.param([(4, 10)], entry(22, 25, epochs=((4, 22),)), 22, id="log ends before the segment"),
        pytest.param([(4, 10)], entry(0, 15, epochs=()), 10, id="no epochs where the log has one"),
        pytest.param([(4, 10)], entry(5, 15, epochs=((4, 10),)), 15, id="old formats, then an epoch"),
        pytest.param([(9, 10)], entry(0, 20, epochs=((8, 0), (9, 10))), 20, id="the leader's own records"),
        pytest.param([(4, 10), (9, 20)], entry(15, 20, epochs=((4, 15),)), 20, id="leader that wrote nothing yet"),
        pytest.param([(4, 10), (6, 20)], entry(20, 25, epochs=((6, 20),)), 20, id="epoch without records"),
    ],
)
def test_log_that_ends_at_20_under_leader_9(epochs: list[EpochEntry], segment: TieredSegment, common: int) -> None:
    assert Lineage(epochs, 9, 20).common_end(segment) == common


@settings(max_examples=examples(1000, 200))
@given(histories(), st.data())
def test_agreed_end_is_where_the_tier_and_a_log_part(logs: tuple[list[int], list[int]], data: st.DataObject) -> None:
    theirs, ours = logs
    cuts = sorted({0, len(theirs), *data.draw(st.lists(st.integers(0, len(theirs)), max_size=4))})
    segments = [segment_of(theirs, start, end) for start, end in pairwise(cuts)]
    start = data.draw(st.integers(0, len(theirs)))
    both = min(len(theirs), len(ours))
    same = next((offset for offset in range(both) if theirs[offset] != ours[offset]), both)
    above = [segment for segment in segments if segment.end_offset > start]
    assert lineage_of(ours, 9).agreed_end(above, start) == max(start, same)


def test_agreed_end_is_before_a_gap() -> None:
    log = [0] * 10
    segments = [segment_of(log, 0, 3), segment_of(log, 5, 10)]
    assert lineage_of(log, 0).agreed_end(segments, 0) == 3
    assert lineage_of(log, 0).agreed_end(segments[1:], 6) == 10
