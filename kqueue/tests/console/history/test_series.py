from __future__ import annotations

import math
import sys

from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.history.series import SeriesFamily, highest, mean, resolutions

STEP_MS = 10_000
START_MS = 1_800_000_000_000  # a multiple of all steps


def values_of(family: SeriesFamily[str], key: str, resolution: int = 0) -> list[float | None]:
    return [point.value for point in family.points(key, resolution)]


def known(family: SeriesFamily[str], key: str, resolution: int = 0) -> list[float]:
    return [value for value in values_of(family, key, resolution) if value is not None]


def test_a_sample_that_is_missing_is_a_gap() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    family.record(START_MS, {"a": 1, "b": None})
    family.record(START_MS + 2 * STEP_MS, {"a": 3})
    assert values_of(family, "a")[-3:] == [1, None, 3]
    assert family.points("a")[-1].time_ms == START_MS + 2 * STEP_MS
    assert len(family.points("a")) == 3  # from the first sample on
    assert family.points("b") == family.points("never") == []


def test_coarser_steps_keep_what_the_finest_has_lost() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    finest, minutes, coarsest = family.resolutions
    for number in range(3 * finest.slots):
        family.record(START_MS + number * STEP_MS, {"a": float(number)})
    assert known(family, "a") == [float(number) for number in range(2 * finest.slots, 3 * finest.slots)]
    assert known(family, "a", 1) == [6 * slot + 2.5 for slot in range(finest.slots // 2)]
    assert known(family, "a", 2) == [30 * slot + 14.5 for slot in range(finest.slots // 10)]
    assert (minutes.span_ms, coarsest.span_ms) == (2 * 3_600_000, 12 * 3_600_000)


def test_a_coarse_slot_that_has_not_ended_shows_what_is_known() -> None:
    family = SeriesFamily[str](STEP_MS, 10, highest)
    family.record(START_MS, {"a": 5})
    family.record(START_MS + STEP_MS, {"a": 2})
    assert known(family, "a", 1) == known(family, "a", 2) == [5]


def test_values_are_combined_without_the_gaps() -> None:
    assert (mean([1, math.nan, 3]), highest([1, math.nan, 3])) == (2, 3)
    assert math.isnan(mean([math.nan]))
    assert math.isnan(highest([]))


def test_a_pause_of_hours_leaves_gaps_and_what_the_coarse_steps_have() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    family.record(START_MS, {"a": 7})
    family.record(START_MS + 3 * 3_600_000, {"a": 9})
    assert (known(family, "a"), known(family, "a", 1), known(family, "a", 2)) == ([9], [9], [7, 9])


def test_a_clock_that_was_set_back_overwrites_the_newest_value() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    family.record(START_MS, {"a": 1})
    family.record(START_MS - 3_600_000, {"a": 2})
    family.record(START_MS + STEP_MS, {"a": 3})
    assert known(family, "a") == [2, 3]


def test_the_busiest_series_stay() -> None:
    family = SeriesFamily[str](STEP_MS, 2)
    family.record(START_MS, {"quiet": 0, "busy": 100, "some": 5})
    assert family.keys() == ["busy", "some"]
    family.record(START_MS + STEP_MS, {"quiet": 50, "busy": 0, "some": 5})
    assert family.keys() == ["busy", "quiet"]
    assert known(family, "some") == []


def test_of_equally_busy_series_those_with_history_stay() -> None:
    family = SeriesFamily[str](STEP_MS, 2)
    family.record(START_MS, {"x": 0, "y": 0})
    family.record(START_MS + STEP_MS, {"a": 0, "x": 0, "y": 0})
    assert set(family.keys()) == {"x", "y"}


def test_a_series_ends_when_none_of_its_values_is_left() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    family.record(START_MS, {"a": 1})
    family.record(START_MS + family.resolutions[-1].span_ms + STEP_MS, {"b": 1})
    assert family.keys() == ["b"]


def test_values_that_no_chart_can_show_are_not_recorded() -> None:
    family = SeriesFamily[str](STEP_MS, 10)
    family.record(START_MS, {"inf": math.inf, "nan": math.nan, "huge": 1e300, "a": 2**60})
    assert family.keys() == ["a"]


def test_a_series_takes_some_1600_bytes() -> None:
    family = SeriesFamily[int](STEP_MS, 5_000)
    family.record(START_MS, dict.fromkeys(range(5_000), 1.0))
    slots = sum(each.slots for each in resolutions(STEP_MS))
    size = sum(map(sys.getsizeof, family._values.values())) / 5_000
    assert 4 * slots <= size < 4 * slots + 100 < 1_700


@given(st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(0, 1000))), max_size=20))
def test_a_coarse_slot_is_the_highest_of_its_samples(steps: list[tuple[int, int | None]]) -> None:
    family = SeriesFamily[str](STEP_MS, 10, highest)
    now_ms, expected = START_MS, {}
    for step, value in steps:
        now_ms += step * STEP_MS
        family.record(now_ms, {"a": value})
        if value is not None:
            expected[now_ms] = float(value)  # within one slot the last sample counts
    for index, each in enumerate(family.resolutions):
        by_slot: dict[int, float] = {}
        for time_ms, value in expected.items():
            slot = time_ms // each.step_ms
            by_slot[slot] = max(value, by_slot.get(slot, 0))
        newest = now_ms // each.step_ms
        kept = {slot * each.step_ms: value for slot, value in by_slot.items() if slot > newest - each.slots}
        shown = {point.time_ms: point.value for point in family.points("a", index) if point.value is not None}
        assert shown == kept
