"""Avro values as columns, compared with what fastavro writes."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.avro import AvroFormat
from kqueue.spark.value_formats.contract import Decoded, SchemaText
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples


def record(*fields: Any, name: str = "shop.Order", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields], **more}


def text(schema: Any, *references: tuple[str, Any]) -> SchemaText:
    return SchemaText(json.dumps(schema), tuple((name, json.dumps(one)) for name, one in references))


def encoded(schema: Any, row: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), row)
    return file.getvalue()


ITEM = record(("sku", "string"), ("at", {"type": "long", "logicalType": "timestamp-millis"}), name="Item")
ALL = record(
    ("truth", "boolean"), ("small", "int"), ("large", "long"), ("single", "float"), ("double", "double"),
    ("data", "bytes"), ("words", "string"),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at_ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("at_us", {"type": "long", "logicalType": "timestamp-micros"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    ("time", {"type": "int", "logicalType": "time-millis"}),
    ("uuid", {"type": "string", "logicalType": "uuid"}),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("fixed", {"type": "fixed", "name": "Four", "size": 4}),
    ("again", "Four"),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}),
    ("maybe", ["null", "long"]),
    ("nested", ["null", record(("deep", ["string", "null"]), name="Nested")]),
    ("items", {"type": "array", "items": ITEM}),
    ("tags", {"type": "map", "values": "int"}),
    ("either", ["null", "long", "string", record(("x", "int"), name="X"), record(("x", "int"), name="Y")]),
    ("number", ["int", "long"]),
)  # fmt: skip
TYPE = (
    "struct<truth: bool, small: int32, large: int64, single: float, double: double, data: binary, words: string, "
    "day: date32[day], at_ms: timestamp[us, tz=UTC], at_us: timestamp[us, tz=UTC], local: timestamp[us], time: int32, "
    "uuid: string, amount: decimal128(10, 2), fixed: binary, again: binary, state: string, maybe: int64, "
    "nested: struct<deep: string>, items: list<element: struct<sku: string, at: timestamp[us, tz=UTC]>>, "
    "tags: map<string, int32>, "
    "either: struct<member0: int64, member1: string, member2: struct<x: int32>, member3: struct<x: int32>>, "
    "number: int64>"
)
SMALL, LARGE = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
NAMED = st.tuples(st.sampled_from(["shop.X", "shop.Y"]), st.builds(dict, x=SMALL))
ROWS = st.fixed_dictionaries(
    {
        "truth": st.booleans(), "small": SMALL, "large": LARGE, "single": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False), "data": st.binary(max_size=20), "words": WORDS, "day": st.dates(),
        "at_ms": MOMENTS, "at_us": MOMENTS, "local": MOMENTS, "time": st.integers(0, 86_399_999), "uuid": st.uuids(),
        "amount": st.decimals(Decimal(-99_999_999), Decimal(99_999_999), places=2),
        "fixed": st.binary(min_size=4, max_size=4), "again": st.binary(min_size=4, max_size=4),
        "state": st.sampled_from(["NEW", "PAID"]), "maybe": st.none() | LARGE,
        "nested": st.none() | st.fixed_dictionaries({"deep": st.none() | WORDS}),
        "items": st.lists(st.fixed_dictionaries({"sku": WORDS, "at": MOMENTS}), max_size=3),
        "tags": st.dictionaries(WORDS, SMALL, max_size=3),
        "either": st.none() | LARGE | WORDS | NAMED,
        "number": LARGE,
    }
)  # fmt: skip


def in_columns(row: dict[str, Any]) -> dict[str, Any]:
    """The row as Arrow has it."""

    def millis(moment: datetime) -> datetime:
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    either = row["either"]
    if either is not None:
        place = (
            {int: 0, str: 1}.get(type(either))
            if not isinstance(either, tuple)
            else {"shop.X": 2, "shop.Y": 3}[either[0]]
        )
        value = either[1] if isinstance(either, tuple) else either
        either = dict.fromkeys([f"member{number}" for number in range(4)]) | {f"member{place}": value}
    return row | {
        "at_ms": millis(row["at_ms"]).replace(tzinfo=UTC),
        "at_us": row["at_us"].replace(tzinfo=UTC),
        "local": millis(row["local"]),
        "uuid": str(row["uuid"]),
        "items": [item | {"at": millis(item["at"]).replace(tzinfo=UTC)} for item in row["items"]],
        "tags": list(row["tags"].items()),
        "either": either,
    }


def in_avro(row: dict[str, Any]) -> dict[str, Any]:
    zoned = {name: row[name].replace(tzinfo=UTC) for name in ("at_ms", "at_us")}
    items = [item | {"at": item["at"].replace(tzinfo=UTC)} for item in row["items"]]
    return row | zoned | {"items": items, "time": (datetime.min + timedelta(milliseconds=row["time"])).time()}


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(ROWS, max_size=3))
def test_value_of_every_type_survives_a_round_trip(rows: list[dict[str, Any]]) -> None:
    format = AvroFormat(text(ALL))
    assert str(format.type).replace(" not null", "") == TYPE
    values, errors = format.decoder(None).decode([encoded(ALL, in_avro(row)) for row in rows])
    assert not errors
    assert values.type == format.type
    assert values.to_pylist() == [in_columns(row) for row in rows]


def decoded(schema: Any, values: list[bytes]) -> Decoded:
    """Decode values by their own schema; the rows without a value are those with an error."""
    format = AvroFormat(text(schema))
    result = format.decoder(None).decode(values)
    result.values.validate(full=True)
    assert result.values.type == format.type
    assert [index for index, is_valid in enumerate(result.values.is_valid().to_pylist()) if not is_valid] == sorted(
        result.errors
    )
    return result


@settings(deadline=None, max_examples=examples(50))
@given(ROWS, st.data())
def test_cut_and_changed_values_leave_their_neighbours_as_they_are(row: dict[str, Any], data: st.DataObject) -> None:
    fine = encoded(ALL, in_avro(row))
    place = data.draw(st.integers(0, len(fine) - 1))
    changed = bytearray(fine)
    changed[place] = data.draw(st.integers(0, 255))
    result = decoded(ALL, [fine, fine[:place], fine, bytes(changed), fine])
    assert 1 in result.errors
    assert result.errors.keys() <= {1, 3}
    assert result.values.take(pa.array([0, 2, 4])).to_pylist() == [in_columns(row)] * 3


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_of_lists_are_errors_or_values(values: list[bytes]) -> None:
    lists = record(
        ("a", {"type": "array", "items": {"type": "array", "items": ["int", "null"]}}),
        ("m", {"type": "map", "values": ["null", "string"]}),
        ("x", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}]),
    )
    assert len(decoded(lists, values).values) == len(values)


def test_arrays_of_several_and_of_sized_blocks_are_decoded() -> None:
    schema = record(("a", {"type": "array", "items": "int"}), ("b", "int"))
    value = b"\x04\x02\x04" + b"\x03\x04\x06\x08" + b"\x00" + b"\x0a"  # a block of 2, and 2 of 2 bytes
    result = decoded(schema, [value, b"\x00\x02"])
    assert (result.values.to_pylist(), result.errors) == ([{"a": [1, 2, 3, 4], "b": 5}, {"a": [], "b": 1}], {})


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.binary(max_size=200), max_size=5), st.data())
def test_hostile_bytes_are_errors_or_values(values: list[bytes], data: st.DataObject) -> None:
    fine = encoded(ALL, in_avro(data.draw(ROWS)))
    cut = fine[: data.draw(st.integers(0, len(fine) - 1))]
    rows, errors = AvroFormat(text(ALL)).decoder(None).decode([*values, fine, cut, fine + b"\0"])
    assert len(rows) == len(values) + 3
    assert len(values) not in errors
    assert "not Avro of shop.Order: " in errors[len(values) + 1]
    assert "1 bytes are left over" in errors[len(values) + 2]
    assert {index for index, one in enumerate(rows.is_valid().to_pylist()) if not one} == set(errors)


def test_value_is_resolved_to_the_readers_schema() -> None:
    old = record(("id", "int"), ("gone", "string"), ("state", {"type": "enum", "name": "S", "symbols": ["A", "B"]}))
    new = record(("state", {"type": "enum", "name": "S", "symbols": ["B", "A"]}), ("id", ["null", "long"]))
    new["fields"].append({"name": "shop", "type": "string", "default": "x"})
    decoder = AvroFormat(text(new)).decoder(text(old))
    rows, errors = decoder.decode([encoded(old, {"id": 7, "gone": "g", "state": "A"})])
    assert (rows.to_pylist(), errors) == ([{"state": "A", "id": 7, "shop": "x"}], {})
    newer = record(("id", "string"))
    _, errors = AvroFormat(text(newer)).decoder(text(old)).decode([encoded(old, {"id": 7, "gone": "g", "state": "A"})])
    assert list(errors) == [0]


def test_writers_schemas_may_not_be_recursive_either() -> None:
    """A value of some KB would overflow the stack of fastavro's compiled code."""
    reader = AvroFormat(text(record(("a", "int"), name="Node")))
    for kind in (["null", "Node"], {"type": "array", "items": "Node"}, {"type": "map", "values": ["null", "Node"]}):
        with pytest.raises(SchemaRefused, match="Node is in itself"):
            reader.decoder(text(record(("next", kind), ("a", "int"), name="Node")))
    twice = record(("x", record(("n", "int"), name="Inner")), ("y", "Inner"), ("a", "int"), name="Node")
    assert reader.decoder(text(twice)).decode([b"\2\4\6"]).values.to_pylist() == [{"a": 3}]


def test_referenced_schemas_are_resolved() -> None:
    item = record(("sku", "string"), name="shop.Item")
    order = record(("items", {"type": "array", "items": "shop.Item"}))
    whole = record(("items", {"type": "array", "items": item}))
    format = AvroFormat(text(order, ("shop.Item", item)))
    value = encoded(whole, {"items": [{"sku": "a"}]})
    for writer in (None, text(whole), text(order, ("shop.Item", item))):
        assert format.decoder(writer).decode([value]).values.to_pylist() == [{"items": [{"sku": "a"}]}]


def test_numbers_and_texts_without_a_place_are_wrong_values() -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-millis"}), ("n", "int"), ("s", "string"))
    plain = record(("at", "long"), ("n", "long"), ("s", "bytes"))
    rows = [
        (0, 2**31 - 1, b"a"), (2**62, 1, b"a"), (0, 2**31, b"a"), (5, -(2**31), b""), (-(2**63), 1, b"a"),
        (0, 1, b"\xff"), (-1, 2, "é".encode()), (0, -(2**31) - 1, b"a"),
    ]  # fmt: skip
    values, errors = decoded(schema, [encoded(plain, {"at": at, "n": n, "s": s}) for at, n, s in rows])
    assert sorted(errors) == [1, 2, 4, 5, 7]
    right = [values.to_pylist()[row] for row in (0, 3, 6)]
    assert [(row["n"], row["s"]) for row in right] == [(2**31 - 1, "a"), (-(2**31), ""), (2, "é")]
    assert right[1]["at"] == datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)
    assert right[2]["at"] == datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


REFUSED = [
    ("{", "is no JSON"),
    ('"string"', "is no record"),
    ("[" * 100_000, "is no JSON"),
    (json.dumps(record(("a", "strin"))), "can't be used: "),
    (json.dumps({"type": "record"}), "can't be used: "),
    (json.dumps(record(("next", ["null", "shop.Order"]))), "shop.Order is in itself"),
    (json.dumps(record(("a", "null"))), "null alone has no column"),
    (json.dumps(record(("a", ["null"]))), "no type but null"),
    (json.dumps(record(("a", ["int", ["null", "string"]]))), "a union in a union"),
    (json.dumps(record(("a", {"type": "array", "items": "null"}))), "items that take no bytes"),
    (json.dumps(record(("a", {"type": "array", "items": record(name="E")}))), "items that take no bytes"),
    (json.dumps(record(("a", "int"), ("A", "int"))), "'a' and 'A', which Spark takes for one"),
    (json.dumps(record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39}))), "39 digits"),
    (json.dumps(record(("a", ["long", {"type": "long", "logicalType": "timestamp-millis"}]))), "can't be told apart"),
    (json.dumps(record(*[(f"f{number}", "int") for number in range(2_001)])), "more than 2,000 fields"),
    (json.dumps(record()), "has no fields"),
]


@for_each("schema, words", REFUSED)
def test_invalid_schema_is_refused_briefly(schema: str, words: str) -> None:
    with pytest.raises(SchemaRefused, match=words) as caught:
        AvroFormat(SchemaText(schema))
    assert len(str(caught.value)) < 500


def test_deep_schemas_are_refused() -> None:
    schema: Any = "int"
    for _ in range(40):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaRefused, match="nested in more than 32 levels"):
        AvroFormat(text(record(("a", schema))))
