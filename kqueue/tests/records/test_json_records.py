from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.records.json_records import document_bytes, json_of, read_record
from kqueue.tests.tables import for_each


@given(st.none() | st.binary(max_size=40))
def test_bytes_go_round_unharmed(data: bytes | None) -> None:
    line = json.dumps({"key": None, "value": json_of(data)})
    assert read_record(line).value == data
    assert read_record(line.encode()).value == data
    assert read_record({"value": data}).value == data


def test_absent_and_null_fields_are_none() -> None:
    assert read_record('{"value": null}') == (None, None, (), None, None, None)


@for_each("headers", ['[["a", "1"], ["a", null]]', "[]", "null", '{"a": "1"}', "{}"])
def test_headers_are_pairs_or_an_object(headers: str) -> None:
    pairs = json.loads(headers) or []
    expected = list(pairs.items()) if isinstance(pairs, dict) else pairs
    read = read_record(f'{{"value": "v", "headers": {headers}}}').headers
    assert [[name, value and value.decode()] for name, value in read] == [list(pair) for pair in expected]


@for_each("value", [{"coffees": 2}, [1, None], {"base64": "eA==", "more": 1}])
def test_a_document_is_a_value_where_it_may_be(value: object) -> None:
    row = {"value": value}
    assert read_record(row, has_documents=True).value == document_bytes(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"value" must be a text, null'):
        read_record(row)


@for_each(
    "fields, message",
    [
        ('"timestamp": -2', '"timestamp" must be a whole number from -1 to 9223372036854775807, not -2'),
        ('"timestamp": 9223372036854775808', '"timestamp" must be a whole number'),
        ('"timestamp": 1e3', '"timestamp" must be a whole number'),
        ('"timestamp": true', '"timestamp" must be a whole number'),
        ('"partition": -1', '"partition" must be a whole number from 0 to 2147483647, not -1'),
        ('"partition": 2147483648', '"partition" must be a whole number'),
        ('"key": "\\ud800"', '"key" has half of a surrogate pair at character 0'),
        ('"headers": [["a", "b\\udfff"]]', '"header a" has half of a surrogate pair at character 1'),
        ('"headers": {"\\ud800": "b"}', '"headers" has half of a surrogate pair'),
        ('"headers": "a"', "\"headers\" must be a list of .* not 'a'"),
        ('"headers": [["a"]]', '"headers" must be a list'),
    ],
)
def test_what_a_record_can_not_have_is_refused(fields: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_record(f'{{"value": "v", {fields}}}')


@for_each("line", ["[]", "3", "{}", '{"topic": "t"}', '{"valeu": "x"}'])
def test_another_object_is_shown(line: str) -> None:
    with pytest.raises(ValueError, match="expected an object .* found "):
        read_record(line)
