from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.text import SHOWN_CHARACTERS, counted, java_text, short_repr, size_text
from kqueue.tests.tables import for_each


@for_each(
    "size, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (2.5e9, "2.5 GB"),
        (4e12, "4,000.0 GB"),
    ],
)
def test_size_text(size: float, text: str) -> None:
    assert size_text(size) == text


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_size_text_never_shows_a_thousand_below_the_largest_unit(size: int) -> None:
    number, unit = size_text(size).split()
    assert unit == "GB" or float(number.replace(",", "")) < 1000


@for_each("count, text", [(0, "0 records"), (1, "1 record"), (1234567, "1,234,567 records")])
def test_counted(count: int, text: str) -> None:
    assert counted(count, "record") == text


@for_each(
    "data, shown",
    [  # as java.lang.String shows them
        ("c3a4", "ä"),
        ("41ededa0", "A\ufffd\ufffd"),
        ("edbf80", "\ufffd"),
        ("eda0bfc3", "\ufffd\ufffd"),
        ("e2e2edbff480", "\ufffd\ufffd\ufffd\ufffd"),
        ("f0eda0a0a09f", "\ufffd\ufffd\ufffd\ufffd"),
        ("bf41edbf80bf", "\ufffdA\ufffd\ufffd"),
        ("edbf9fe241ff", "\ufffd\ufffdA\ufffd"),
        ("ff", "\ufffd"),
    ],
)
def test_text_is_what_java_shows(data: str, shown: str) -> None:
    assert java_text(bytes.fromhex(data)) == shown


def test_a_long_value_is_shown_in_part() -> None:
    assert short_repr("x" * 1000) == "'" + "x" * (SHOWN_CHARACTERS - 1) + "..."
