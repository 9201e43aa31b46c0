"""Readers resolve values of older and newer schemas by the rules of Avro."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from kqueue.spark.value_formats.avro import AvroFormat
from kqueue.tests.spark.value_formats.test_avro import encoded, record, text
from kqueue.tests.tables import for_each

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "Fixed", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
A, B = record(("x", "int"), name="A"), record(("x", "int"), name="B")


def members(count: int, number: int, value: Any) -> dict[str, Any]:
    return dict.fromkeys([f"member{one}" for one in range(count)]) | {f"member{number}": value}


def read(written: Any, value: Any, read_as: Any) -> Any:
    """Return what a field that is written with one type is by another; text: why there is none."""
    writer = record(("n", "int"), ("f", written), name="Order")
    reader = {**record(name="Order"), "fields": [{"name": "f", "type": read_as}]}
    values = [encoded(writer, {"n": 1, "f": value})] * 2
    rows, errors = AvroFormat(text(reader)).decoder(text(writer)).decode(values)
    if errors:
        assert rows.to_pylist() == [None, None]
        assert errors[0] == errors[1]
        return errors[0].removeprefix("not Avro of Order: ")
    first, second = rows.to_pylist()
    assert first == second
    return first["f"]


def with_default(kind: Any, default: Any) -> Any:
    writer = record(("n", "int"), name="Order")
    reader = {**writer, "fields": [{"name": "new", "type": kind, "default": default}]}
    rows, errors = AvroFormat(text(reader)).decoder(text(writer)).decode([b"\x02", b"\x02"])
    assert rows.to_pylist()[0] == rows.to_pylist()[1]
    return errors[0] if errors else rows.to_pylist()[0]["new"]


@for_each(
    "kind, default, value",
    [
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00fe\u0002", b"\xfe\x02"),
        ("string", "é", "é"),
        ("double", 1, 1.0),
        (DECIMAL, "\u0000\u00c8", Decimal("2.00")),
        (FIXED_DECIMAL, "\u00ff\u009c", Decimal("-1.00")),
        (STATE, "PAID", "PAID"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": DECIMAL}, {"a": "\u0001"}, [("a", Decimal("0.01"))]),
        (["null", "string"], None, None),
        (["string", "int"], "x", members(2, 0, "x")),
        (["bytes", "int"], "\u00fd", members(2, 0, b"\xfd")),
        ([A, B], {"x": 4}, members(2, 0, {"x": 4})),
        (["null", "string"], "x", "x"),
        ({**record(name="Inner"), "fields": [
            {"name": "p", "type": "int", "default": 3}, {"name": "m", "type": {"type": "map", "values": "int"}}]},
         {"m": {"k": 1}}, {"p": 3, "m": [("k", 1)]}),
    ],
)  # fmt: skip
def test_missing_field_has_its_default(kind: Any, default: Any, value: Any) -> None:
    assert with_default(kind, default) == value


@for_each("kind, default", [("bytes", "日"), (STATE, "GONE"), (A, {})])
def test_default_of_another_type_is_refused(kind: Any, default: Any) -> None:
    assert with_default(kind, default) == "not Avro of Order: the default of 'new' is not of its type"


@for_each(
    "written, value, read_as, expected",
    [
        ("int", 5, "double", 5.0),
        ("string", "é", "bytes", "é".encode()),
        ("bytes", "é".encode(), "string", "é"),
        ("bytes", b"\xc8", DECIMAL, Decimal("-0.56")),
        (DECIMAL, Decimal("1.25"), "bytes", b"}"),
        (DECIMAL, Decimal("1.25"), {**DECIMAL, "precision": 10}, Decimal("1.25")),
        ("long", 7, MOMENT, 7),
        # into unions, out of them, and from one to another
        (A, {"x": 1}, ["null", A], {"x": 1}),
        (A, {"x": 1}, ["null", A, B], members(2, 0, {"x": 1})),
        (["null", A], {"x": 1}, ["null", B, A], members(2, 1, {"x": 1})),
        (["null", A], None, ["null", B, A], None),
        ([A, B], ("B", {"x": 2}), B, {"x": 2}),
        ([A, B, "null"], ("A", {"x": 2}), ["null", A], {"x": 2}),
        (["null", "int"], 3, ["null", "string", "long"], members(2, 1, 3)),
        ("int", 3, ["null", "double", "string", "int"], members(3, 2, 3)),
        ("int", 3, ["string", "float"], members(2, 1, 3.0)),
        (["string", STATE], ("State", "NEW"), [STATE, "string"], members(2, 0, "NEW")),
        (["string", STATE], "NEW", [STATE, "string"], members(2, 1, "NEW")),
        ([{"type": "map", "values": "int"}, A], ("A", {"x": 1}), [{"type": "map", "values": "int"}, A],
         members(2, 1, {"x": 1})),
        (["null", "string"], "x", "string", "x"),
        ({"type": "array", "items": ["null", A]}, [{"x": 1}, None], {"type": "array", "items": ["null", "string", A]},
         [members(2, 1, {"x": 1}), None]),
        # names
        (record(("y", "int"), name="old.A"), {"y": 1},
         {**record(name="new.A"), "fields": [{"name": "x", "type": "int", "aliases": ["y"]}]}, {"x": 1}),
        (record(("x", "int"), name="Old"), {"x": 1}, {**A, "aliases": ["Old"]}, {"x": 1}),
        (STATE, "PAID", {**STATE, "symbols": ["NEW"], "default": "NEW"}, "NEW"),
    ],
)  # fmt: skip
def test_written_type_that_fits_is_promoted(written: Any, value: Any, read_as: Any, expected: Any) -> None:
    result = read(written, value, read_as)
    assert (result.microsecond if read_as is MOMENT else result) == expected


@for_each(
    "written, value, read_as, words",
    [
        ("string", "x", "int", "string is written, expected int"),
        (record(("x", "int"), name="Old"), {"x": 1}, A, "record Old is written, expected record A"),
        (A, {"x": 1}, record(("z", "int"), name="A"), "record A has no field 'z', which has no default"),
        (["null", "string"], None, "string", "null is written, expected string"),
        ("string", "x", ["null", "int", A], "string is written, expected int, record A"),
        (STATE, "PAID", {**STATE, "symbols": ["NEW"]}, "PAID is no symbol of enum State, which has no default"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", {"type": "fixed", "name": "F", "size": 3},
         "fixed F of 2 bytes is written, expected 3"),
    ],
)  # fmt: skip
def test_written_type_that_does_not_fit_is_reported(written: Any, value: Any, read_as: Any, words: str) -> None:
    assert read(written, value, read_as) == words


def test_long_decimals_are_decoded_or_refused_quickly() -> None:
    """Python takes minutes to make a decimal of 1 MiB; leading bytes may be there for the sign."""
    decoder = AvroFormat(text(record(("f", {**DECIMAL, "precision": 38}), name="Order"))).decoder(None)
    most = (10**38 - 1).to_bytes(20, "big")
    written = [b"\x28" + most, b"\x28" + (-1).to_bytes(20, "big", signed=True), b"\x80\x80\x80\x01" + b"\x7f" * 2**20]
    decimals, errors = decoder.decode(written)
    assert [row and row["f"] for row in decimals.to_pylist()] == [Decimal("9" * 36 + ".99"), Decimal("-0.01"), None]
    assert errors == {2: "not Avro of Order: a decimal has more than 38 digits"}


def test_name_of_a_field_takes_precedence_over_an_alias() -> None:
    reader = record(("new", A), ("old", "A"), name="Order")
    reader["fields"][0] |= {"aliases": ["old"], "default": {"x": 3}}
    decoder = AvroFormat(text(reader)).decoder(text(record(("old", A), name="Order")))
    assert decoder.decode([b"\x02"]).values.to_pylist() == [{"new": {"x": 3}, "old": {"x": 1}}]


def test_mismatched_type_is_reported_only_for_values_that_contain_it() -> None:
    """Only values that reach what does not fit are wrong."""
    writer = text(record(("f", {"type": "array", "items": "string"})))
    decoder = AvroFormat(text(record(("f", {"type": "array", "items": "int"})))).decoder(writer)
    rows, errors = decoder.decode([b"\x00", b"\x02\x02a\x00"])
    assert (rows.to_pylist(), list(errors)) == ([{"f": []}, None], [1])


def test_numbers_of_one_union_keep_their_types() -> None:
    """As Connect's unions of all types have them; int and long come as one class from fastavro."""
    union = ["null", "int", "long", "float", "double", "string", "boolean"]
    schema = record(("v", union), ("w", ["string", "long", "int"]))
    values = [b"\x02\x0a\x00\x02a", b"\x04\x0a\x02\x04", b"\x06\0\0\xc0?\x04\x06", b"\x08" + b"\0" * 8 + b"\x00\x00"]
    format = AvroFormat(text(schema))
    assert str(format.type.field("v").type).startswith("struct<member0: int32, member1: int64, member2: float, member3")
    read_values, errors = format.decoder(None).decode(values)
    assert not errors
    rows = read_values.to_pylist()
    assert [row["v"] for row in rows] == [members(6, number, value) for number, value in enumerate([5, 5, 1.5, 0.0])]
    assert [row["w"] for row in rows] == [
        members(3, number, value) for number, value in [(0, "a"), (1, 2), (2, 3), (0, "")]
    ]


def test_fields_may_be_named_like_types() -> None:
    schema = record(("int", "int"), ("long", "long"))
    schema["fields"].append({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["int", "long"]}})
    rows, errors = AvroFormat(text(schema)).decoder(None).decode([b"\x02\x04\x02"])
    assert (rows.to_pylist(), errors) == ([{"int": 1, "long": 2, "e": "long"}], {})


def test_schemas_with_many_ways_to_a_part_are_resolved_once() -> None:
    """Each level has ten records that the reader's may be: a walk would go ten to the 20th ways."""
    reader: Any = "int"
    for level in range(20):
        reader = record(("f", reader), name=f"R{level}")
    writers: list[Any] = ["int"]
    for level in range(20):
        names = [f"n{number}.R{level}" for number in range(10)]
        defined = [record(("f", writers), name=names[0])]
        below = [one if isinstance(one, str) else one["name"] for one in writers]
        defined += [record(("f", below), name=name) for name in names[1:]]
        writers = defined
    decoder = AvroFormat(text(reader)).decoder(text(writers[0]))
    rows, errors = decoder.decode([b"\0" * 19 + b"\0\x0e"])
    assert not errors
    assert json.dumps(rows.to_pylist()).count('"f"') == 20
