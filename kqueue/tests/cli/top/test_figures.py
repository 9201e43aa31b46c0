from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.top.figures import count_text, duration_text, number_text, short_time_text, sparkline
from kqueue.tests.tables import for_each


@for_each(
    "value, text",
    [
        (0, "0"), (0.44, "0.4"), (-0.01, "0"), (-2.5, "-2.5"), (9.94, "9.9"), (9.96, "10"), (1234.4, "1,234"),
        (9_999.4, "9,999"), (12_345, "12.3k"), (-12_345, "-12.3k"), (999_949, "999.9k"), (999_990, "1.0M"),
        (3e9, "3.0G"), (2e12, "2.0T"), (9.2e18, "9,200,000.0T"),
    ],
)  # fmt: skip
def test_numbers_have_few_characters(value: float, text: str) -> None:
    assert number_text(value) == text


def test_counts_have_all_digits_up_to_ten_million() -> None:
    assert [count_text(one) for one in (0, 1234, 9_999_999, 10_000_000)] == ["0", "1,234", "9,999,999", "10.0M"]


@for_each(
    "seconds, text",
    [(0.0, "0.00 ms"), (0.00025, "0.25 ms"), (0.0012, "1.2 ms"), (0.0123, "12 ms"), (1.5, "1.50 s"), (200, "3 m 20 s")],
)
def test_times_of_requests(seconds: float, text: str) -> None:
    assert short_time_text(seconds) == text


@for_each(
    "seconds, text",
    [
        (0, "0 s"), (0.2, "1 s"), (59, "59 s"), (59.5, "1 m"), (200, "3 m 20 s"), (7_500, "2 h 5 m"), (86_400, "1 d"),
        (100_000, "1 d 3 h"), (1e9, "> 99 d"), (math.inf, "> 99 d"),
    ],
)  # fmt: skip
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_the_greatest_value_is_the_highest_bar_and_an_unknown_one_a_space() -> None:
    assert sparkline([9, 0, None, 4, 8], 4) == "▁ ▅█"
    assert sparkline([0, 0], 3) == " ▁▁"
    assert sparkline([], 2) == "  "


@given(st.lists(st.none() | st.floats(-1e300, 1e300), max_size=20), st.integers(1, 10))
def test_a_series_is_as_wide_as_it_is_to_be(values: list[float | None], width: int) -> None:
    assert len(sparkline(values, width)) == width
