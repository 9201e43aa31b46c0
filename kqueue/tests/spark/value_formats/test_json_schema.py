"""JSON values as columns, by their schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import SchemaText
from kqueue.spark.value_formats.json_schema import JsonFormat
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "shop": {"type": "string", "maxLength": 5},
        "day": {"type": "string", "format": "date"},
        "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "items": {"type": "array", "items": {"$ref": "#/definitions/item"}},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
        "state": {"enum": ["new", "paid"]},
        "any": {},
        "either": {"type": ["string", "integer"]},
    },
    "definitions": {"item": {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "number"}}}},
}
TYPE = (
    "struct<id: int64, price: double, paid: bool, shop: string, day: date32[day], at: timestamp[us, tz=UTC], "
    "items: list<element: struct<sku: string, n: double>>, tags: map<string, int64>, state: string, any: string, "
    "either: string>"
)


def text(schema: Any, *references: tuple[str, Any]) -> SchemaText:
    return SchemaText(json.dumps(schema), tuple((name, json.dumps(one)) for name, one in references))


def decoded(schema: Any, *values: bytes | Any) -> tuple[list[Any], dict[int, str]]:
    raw = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    rows, errors = JsonFormat(text(schema)).decoder(None).decode(raw)
    return rows.to_pylist(), dict(errors)


def test_every_json_type_is_decoded() -> None:
    assert str(JsonFormat(text(ORDER)).type).replace(" not null", "") == TYPE
    whole = {
        "id": 1.0, "price": 2, "paid": True, "shop": "a", "day": "2024-05-01", "at": "2024-05-01T12:00:00+02:00",
        "items": [{"sku": "s", "n": 1, "more": 1}, {}], "tags": {"x": 1}, "state": "new", "any": {"é": [1, None]},
        "either": 5, "unknown": 1,
    }  # fmt: skip
    rows, errors = decoded(ORDER, whole, {"id": 2, "price": None, "at": None})
    assert not errors
    assert rows[0] == {
        "id": 1, "price": 2.0, "paid": True, "shop": "a", "day": date(2024, 5, 1),
        "at": datetime(2024, 5, 1, 10, tzinfo=UTC), "items": [{"sku": "s", "n": 1.0}, {"sku": None, "n": None}],
        "tags": [("x", 1)], "state": "new", "any": '{"é":[1,null]}', "either": "5",
    }  # fmt: skip
    assert rows[1] == dict.fromkeys(rows[0]) | {"id": 2}


WRONG = [
    (b"\xff", "not UTF-8"),
    (b"{", "not JSON: "),
    (b"[" * 100_000, "not valid: "),
    (b'{"id": NaN}', "not valid: NaN is no JSON"),
    (b'{"id": ' + b"9" * 5_000 + b"}", "not valid: "),
    ({}, 'not valid: "id" is a required property'),
    ({"id": -1}, "not valid: id: "),
    ({"id": 1, "items": [{"sku": 1}]}, "not valid: items/0/sku: "),
    ([1], "not valid: "),
    ({"id": 2**63}, ""),
    ({"id": 1, "day": "2024-02-30"}, "not valid: "),
    ({"id": 1, "at": "2024-02-01T12:00:00"}, "not valid: "),
    (b'{"id": 1, "price": 1e999}', "not valid: "),
    (b'{"id": 1, "any": "\\ud800"}', ""),
]


@for_each("value, words", WRONG)
def test_wrong_value_is_null_and_reported(value: bytes | Any, words: str) -> None:
    rows, errors = decoded(ORDER, {"id": 1}, value, {"id": 3})
    assert [row and row["id"] for row in rows] == [1, None, 3]
    assert list(errors) == [1]
    assert errors[1].startswith(words)
    assert len(errors[1]) < 400


NAMES = st.sampled_from(list(ORDER["properties"])) | st.text()
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANY = st.recursive(LEAVES, lambda one: st.lists(one) | st.dictionaries(NAMES, one))


@settings(deadline=None, max_examples=examples(100))
@given(ANY)
def test_any_json_is_an_error_or_a_value(value: Any) -> None:
    rows, errors = decoded(ORDER, value)
    assert (rows[0] is None) == (0 in errors)


def test_references_are_resolved_and_values_checked_by_the_readers_schema() -> None:
    item = {"type": "object", "properties": {"sku": {"type": "string"}}}
    order = {"type": "object", "properties": {"item": {"$ref": "item.json"}}}
    format = JsonFormat(text(order, ("item.json", item)))
    rows, errors = format.decoder(None).decode([b'{"item":{"sku":"a"}}', b'{"item":{"sku":1}}'])
    assert rows.to_pylist() == [{"item": {"sku": "a"}}, None]
    assert errors[1].startswith("not valid: item/sku: ")
    lax = {"type": "object"}
    rows, errors = format.decoder(text(lax)).decode([b'{"item":{"sku":"a","n":1}}', b'{"item":5}'])
    assert rows.to_pylist() == [{"item": {"sku": "a"}}, None]
    assert errors[1] == "not valid: expected an object, found a whole number"


@for_each(
    "name, own, reference",
    [
        ("item.json", None, "item.json#/definitions/part"),
        ("item.json", "http://shop/order.json", "item.json#/definitions/part"),
        ("http://shop/item.json", "http://shop/order.json", "item.json#/definitions/part"),
        ("http://shop/item.json", None, "http://shop/item.json#/definitions/part"),
        ("item", "http://shop/order.json", "http://shop/item.json#/definitions/part"),
        ("item.json", None, "item.json#/definitions/a%20list/1"),
        ("item.json", None, "item.json#named"),
        ("item.json", None, "#/definitions/own%20part"),
        ("item.json", "http://shop/order.json", "http://shop/order.json#/definitions/own%20part"),
        ("item.json", "http://shop/order.json", "order.json#own"),
    ],
)
def test_reference_of_any_form_is_resolved(name: str, own: str | None, reference: str) -> None:
    part = {"type": "object", "properties": {"sku": {"type": "string"}}}
    item = {
        "$id": "http://shop/item.json",
        "definitions": {"part": part, "a list": [{}, part], "with a name": {"$anchor": "named", **part}},
    }
    order: dict[str, Any] = {"properties": {"item": {"$ref": reference}}}
    order["definitions"] = {"own part": part, "other": {"$anchor": "own", **part}}
    schema = text(order if own is None else {"$id": own, **order}, (name, item))
    rows, errors = JsonFormat(schema).decoder(schema).decode([b'{"item":{"sku":"a"}}', b'{"item":{"sku":1}}'])
    assert rows.to_pylist() == [{"item": {"sku": "a"}}, None]
    assert list(errors) == [1]


def nested(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"properties": {"a": schema}}


REFUSED = [
    ("{", "is no JSON"),
    ('{"type": "string"}', "has no properties"),
    ('{"properties": {"a": {"$ref": "#"}}}', "is in itself"),
    ('{"properties": {"a": {"$ref": "#/none"}}}', "is not there"),
    ('{"properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}', "not among its references"),
    ('{"properties": {"a": {"$ref": "#none"}}}', "is not there"),
    ('{"properties": {"a": {"$ref": "http://[::1/a.json"}}}', "not among its references"),
    ('{"properties": {"a": {"$ref": "#/properties/b/5"}, "b": []}}', "is not there"),
    ('{"properties": {"a": {"not": {"$ref": "http://127.0.0.1:1/a.json"}}}}', "can't be used: "),
    ('{"properties": {"a": {"type": "strin"}}}', "can't be used: "),
    ('{"properties": {"a": {}, "A": {}}}', "Spark takes for one"),
    (json.dumps(nested(40)), "nested in more than 32 levels"),
]


@for_each("schema, words", REFUSED)
def test_invalid_schema_is_refused(schema: str, words: str) -> None:
    with pytest.raises(SchemaRefused, match=words):
        JsonFormat(SchemaText(schema))
