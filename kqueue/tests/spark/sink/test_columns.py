from __future__ import annotations

import pyarrow as pa
import pytest

from kqueue.spark.errors import RowRefused
from kqueue.spark.sink.columns import COLUMNS, check_columns, check_headers, record_columns, topics_of
from kqueue.tests.spark.sink.helpers import rows_of
from kqueue.tests.tables import for_each

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_columns_of_a_source_are_accepted() -> None:
    every = [(column.name, kind) for column in COLUMNS for kind in column.types[:1]]
    check_columns([*every, ("offset", "bigint"), ("timestampType", "int")], None)
    check_columns([("value", "string")], "orders")


@for_each(
    "fields, words",
    [
        ([("key", "string")], "there is no column 'value'; the frame has key"),
        ([("value", "string")], "rows have no target topic"),
        (
            [("value", "struct<a:int>"), ("topic", "string")],
            "the column 'value' is struct<a:int>, expected binary or string: cast it",
        ),
        ([("value", "string"), ("topik", "string")], "there is no column 'topik' to write; did you mean 'topic'?"),
        ([("value", "string"), ("Topic", "string")], "there is no column 'Topic' to write; did you mean 'topic'?"),
        ([("value", "string"), ("value", "string"), ("topic", "string")], "there are 2 columns 'value'"),
    ],
)
def test_wrong_columns_are_refused_with_the_reason(fields: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(RowRefused) as caught:
        check_columns(fields, None)
    assert words in str(caught.value)


def test_rows_are_split_by_topic_in_their_order() -> None:
    rows = rows_of("abcde", topic=["x", "y", "x", "y", "x"])
    assert {name: part.column("value").to_pylist() for name, part in topics_of(rows)} == {
        "x": [b"a", b"c", b"e"],
        "y": [b"b", b"d"],
    }
    with pytest.raises(RowRefused, match="the column 'topic' is null in 1 of 2 rows"):
        topics_of(rows_of("ab", topic=["x", None]))


def test_only_key_and_value_columns_are_encoded() -> None:
    assert record_columns(rows_of("a", topic=["x"], partition=[1], offset=[7])).schema.names == ["key", "value"]


def test_headers_without_a_key_are_refused() -> None:
    check_headers(rows_of("ab", headers=pa.array([[{"key": "k", "value": None}], None], HEADERS)))
    check_headers(rows_of("ab", headers=pa.nulls(2)))
    with pytest.raises(RowRefused, match="1 headers have no key"):
        check_headers(rows_of("a", headers=pa.array([[{"key": None, "value": b"v"}]], HEADERS)))
