from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.columns import (
    JSON_DEPTH_MAX,
    Nesting,
    columns_of,
    in_microseconds,
    list_of,
    map_of,
    refuse_deep,
)


def test_rows_at_fault_are_found_among_many() -> None:
    type = pa.struct([("n", pa.int32())])
    rows: list[Any] = [{"n": number} for number in range(1_000)]
    rows[0] = rows[500] = rows[999] = {"n": 2**31}
    rows[7] = None
    values, errors = columns_of(rows, type, {7: "before"})
    assert sorted(errors) == [0, 7, 500, 999]
    assert values.null_count == 4
    assert values.field("n")[998].as_py() == 998
    assert columns_of([], type, {}).values.type == type


def test_timestamps_have_sparks_unit_at_every_level() -> None:
    millis = pa.timestamp("ms", tz="UTC")
    type = pa.struct([("a", list_of(pa.struct([("b", map_of(millis))]))), ("c", pa.timestamp("ms"))])
    unit_type = in_microseconds(type)
    assert str(unit_type) == str(type).replace("[ms", "[us")
    row = {"a": [{"b": [("k", 5)]}], "c": 7}
    values, errors = columns_of([row, None, {"a": [{"b": [("k", 2**62)]}], "c": 7}], type, {})
    assert (values.type, list(errors)) == (unit_type, [2])


def test_names_that_differ_only_in_case_are_refused() -> None:
    Nesting("it").count(["a", "b"], "it")
    with pytest.raises(SchemaRefused, match="'a' and 'A'"):
        Nesting("it").count(["a", "b", "A"], "it")


def test_deep_documents_are_refused() -> None:
    document: Any = {}
    for number in range(JSON_DEPTH_MAX - 1):
        document = [document, 1] if number % 2 else {"a": document, "b": "c"}
    refuse_deep(document, "it")
    with pytest.raises(SchemaRefused, match="it is nested too deeply"):
        refuse_deep([document], "it")
