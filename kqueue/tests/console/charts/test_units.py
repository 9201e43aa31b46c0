from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.charts.units import (
    Unit,
    ago_text,
    axis_text,
    date_text,
    duration_text,
    time_text,
    time_ticks,
    value_text,
    value_ticks,
)

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1234.0, Unit.RECORDS, "1,234"),
        (1234.56, Unit.RECORDS_PER_S, "1,234.6"),
        (0.25, Unit.RECORDS_PER_S, "0.25"),
        (2_500_000.0, Unit.BYTES, "2.5 MB"),
        (2_500.0, Unit.BYTES_PER_S, "2.5 kB/s"),
        (0.0123, Unit.SECONDS, "12.3 ms"),
        (None, Unit.COUNT, "–"),
        (math.nan, Unit.COUNT, "–"),
        (math.inf, Unit.BYTES, "–"),
    ],
)
def test_values_have_the_text_of_their_unit(value: float | None, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


def test_durations_have_the_unit_that_suits_them() -> None:
    assert [duration_text(each) for each in (0, 0.00025, 0.0034, 0.9999, 12, 3600)] == [
        *("0 µs", "250 µs", "3.4 ms", "1 s", "12 s", "3,600 s")
    ]


def test_ticks_are_shortened() -> None:
    assert [axis_text(each, Unit.RECORDS) for each in (0, 0.5, 250, 1500, 2e6, 5e9, 1e13)] == [
        *("0", "0.5", "250", "1.5k", "2M", "5G", "10T")
    ]
    assert axis_text(0.002, Unit.SECONDS) == "2 ms"


def test_ticks_are_round_and_reach_the_highest_value() -> None:
    assert value_ticks(87) == [0, 25, 50, 75, 100]
    assert value_ticks(1000) == [0, 250, 500, 750, 1000]
    assert value_ticks(3, Unit.COUNT) == value_ticks(3.1, Unit.RECORDS)[:4] == [0, 1, 2, 3]
    assert value_ticks(1, Unit.COUNT) == [0, 1]
    assert value_ticks(0) == value_ticks(math.nan) == value_ticks(math.inf) == [0, 1]


@given(st.floats(min_value=1e-12, max_value=1e38))
def test_there_are_few_ticks_for_any_value(highest: float) -> None:
    ticks = value_ticks(highest)
    assert 2 <= len(ticks) <= 6
    assert ticks[-1] >= highest * 0.999


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 30 * 24 * HOUR_MS))
def test_there_are_few_times_for_any_range(first_ms: int, span_ms: int) -> None:
    ticks = time_ticks(first_ms, first_ms + span_ms)
    assert len(ticks) <= 16
    assert all(first_ms <= tick <= first_ms + span_ms for tick in ticks)


def test_times_are_of_utc() -> None:
    assert time_ticks(HOUR_MS - 1, 3 * HOUR_MS)[0] == HOUR_MS
    assert (time_text(HOUR_MS), time_text(HOUR_MS + 5_000, seconds=True)) == ("01:00", "01:00:05")
    assert date_text(HOUR_MS) == "1970-01-01"
    assert time_text(10**20) == date_text(10**20) == ""


def test_how_long_ago_has_its_largest_units() -> None:
    minute = 60_000
    elapsed = (-5, 45_000, 12.5 * minute, 60 * minute, 185 * minute, 3 * 24 * 60 * minute)
    assert [ago_text(each) for each in elapsed] == ["0 s", "45 s", "12 min", "1 h", "3 h 5 min", "3 days"]
