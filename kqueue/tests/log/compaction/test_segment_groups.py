"""S5.2: which segments are put together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.compaction.compaction_task import group_sources
from kqueue.log.compaction.model import SegmentSource
from kqueue.log.formats.filenames import INDEX, TIMEINDEX, file_name
from kqueue.tests.log.compaction.helpers import config

CONFIG = config(segment_bytes=100, segment_index_bytes=24)


def bases(groups: list[list[SegmentSource]]) -> list[list[int]]:
    return [[source.base for source in group] for group in groups]


def sources(*sizes: int, step: int = 10) -> list[SegmentSource]:
    return [SegmentSource(number * step, (number + 1) * step, size) for number, size in enumerate(sizes)]


def test_adjacent_segments_that_fit_are_grouped() -> None:
    assert bases(group_sources(sources(40, 40, 20, 1, 99, 100, 500, 1), {}, CONFIG)) == [
        [0, 10, 20],
        [30, 40],
        [50],
        [60],
        [70],
    ]
    assert group_sources([], {}, CONFIG) == []


def test_indexes_have_to_fit_too() -> None:
    index = {file_name(base, INDEX): 8 for base in (0, 10, 20, 30)}
    assert bases(group_sources(sources(1, 1, 1, 1), index, CONFIG)) == [[0, 10, 20], [30]]
    times = {file_name(base, TIMEINDEX): 12 for base in (0, 10, 20, 30)}
    assert bases(group_sources(sources(1, 1, 1, 1), times, CONFIG)) == [[0, 10], [20, 30]]


def test_offsets_have_to_fit_the_indexes() -> None:
    far = sources(1, 1, 1, step=1 << 30)
    assert bases(group_sources(far, {}, CONFIG)) == [[0, 1 << 30], [1 << 31]]
    empty = sources(1, 1, 0, step=1 << 30)
    assert bases(group_sources(empty, {}, CONFIG)) == [[0, 1 << 30, 1 << 31]]


@given(st.lists(st.integers(0, 150), max_size=12))
def test_every_segment_is_in_one_group_and_only_single_ones_exceed_the_limit(sizes: list[int]) -> None:
    given_sources = sources(*sizes)
    groups = group_sources(given_sources, {}, CONFIG)
    assert [source for group in groups for source in group] == given_sources
    totals = [sum(source.size for source in group) for group in groups]
    assert all(len(group) == 1 or total <= 100 for group, total in zip(groups, totals, strict=True))
    assert all(total + after[0].size > 100 for total, after in zip(totals, groups[1:], strict=False))
