from __future__ import annotations

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.event_schema.schema import seconds_of, type_of
from kqueue.tests.tables import for_each


@for_each(
    "text, seconds", [("30 minutes", 1_800), ("2 hours", 7_200), ("1 day 12 hours", 129_600), ("1 week", 604_800)]
)
def test_duration_is_read_in_seconds(text: str, seconds: int) -> None:
    assert seconds_of(text, "window") == seconds


@for_each("text", ["", "2", "hours", "0 hours", "2 hours and more", "-1 day", "100 months", "600 weeks"])
def test_text_without_a_duration_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="^window: expected a time such as "):
        seconds_of(text, "window")


def test_type_names_map_to_spark_types_and_unknown_ones_to_none() -> None:
    decimal = type_of("decimal(10,2)")
    assert decimal is not None
    assert (decimal.spark, decimal.scale) == ("decimal(10,2)", 2)
    assert type_of("timestamp_ms") is not None
    assert [type_of(name) for name in ("decimal(39,2)", "decimal(2,3)", "decimal", "text")] == [None] * 4
