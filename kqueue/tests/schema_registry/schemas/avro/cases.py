"""Pairs of Avro schemas, and which of them reads what the other one wrote."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class AvroCase(NamedTuple):
    """`old`, `new`: documents; `backward`: new reads old; `forward`: old reads new."""

    about: str
    old: Any
    new: Any
    backward: bool
    forward: bool


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


F1 = field("f1", "string")
TREE = record(field("value", "int"), field("next", ["null", "R"], default=None))
WIDE_TREE = record(field("value", "long"), field("next", ["null", "R"], default=None))
NEW_FIELD_TREE = record(field("value", "int"), field("more", "int"), field("next", ["null", "R"], default=None))
INNER = record(field("x", "int"), name="Inner")

CASES = (
    # primitives and promotions
    AvroCase("the same primitive", "int", "int", True, True),
    AvroCase("int to long", "int", "long", True, False),
    AvroCase("int to float", "int", "float", True, False),
    AvroCase("int to double", "int", "double", True, False),
    AvroCase("long to float", "long", "float", True, False),
    AvroCase("long to double", "long", "double", True, False),
    AvroCase("float to double", "float", "double", True, False),
    AvroCase("string and bytes", "string", "bytes", True, True),
    AvroCase("int to string", "int", "string", False, False),
    AvroCase("boolean to int", "boolean", "int", False, False),
    AvroCase("null to int", "null", "int", False, False),
    AvroCase("fixed to bytes", fixed(4), "bytes", False, False),
    AvroCase("enum to string", enum("A"), "string", False, False),
    AvroCase("a logical type is added", "int", {"type": "int", "logicalType": "date"}, True, True),
    AvroCase(
        "another scale of a decimal",
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        True,
        True,
    ),
    # arrays and maps
    AvroCase("items are promoted", array("int"), array("long"), True, False),
    AvroCase("items of another type", array("int"), array("string"), False, False),
    AvroCase("values are promoted", map_of("float"), map_of("double"), True, False),
    AvroCase("an array becomes a map", array("int"), map_of("int"), False, False),
    AvroCase("a record becomes a map", record(F1), map_of("string"), False, False),
    # fields of records
    AvroCase("a field with a default is added", record(F1), record(F1, field("f2", "string", default="x")), True, True),
    AvroCase("a field without a default is added", record(F1), record(F1, field("f2", "string")), False, True),
    AvroCase("a field without a default is removed", record(F1, field("f2", "int")), record(F1), True, False),
    AvroCase("a field with a default is removed", record(F1, field("f2", "int", default=1)), record(F1), True, True),
    AvroCase(
        "a nullable field without a default is added", record(F1), record(F1, field("f2", ["null", "int"])), False, True
    ),
    AvroCase(
        "a nullable field with the default null is added",
        record(F1),
        record(F1, field("f2", ["null", "int"], default=None)),
        True,
        True,
    ),
    AvroCase("a default is removed", record(field("f1", "int", default=1)), record(field("f1", "int")), True, True),
    AvroCase("fields in another order", record(F1, field("f2", "int")), record(field("f2", "int"), F1), True, True),
    AvroCase("a field is promoted", record(field("f1", "int")), record(field("f1", "long")), True, False),
    AvroCase("a field of another type", record(field("f1", "int")), record(field("f1", "boolean")), False, False),
    AvroCase("a field is renamed with an alias", record(F1), record(field("g", "string", aliases=["f1"])), True, False),
    AvroCase("a field is renamed without an alias", record(F1), record(field("g", "string")), False, False),
    AvroCase(
        "an alias and the name are both written",
        record(F1, field("f2", "string")),
        record(field("f1", "string", aliases=["f2"])),
        False,
        False,
    ),
    AvroCase(
        "documentation and order are changed", record(F1), record({**F1, "doc": "d", "order": "ignore"}), True, True
    ),
    AvroCase("a field becomes nullable", record(F1), record(field("f1", ["null", "string"])), True, False),
    AvroCase(
        "an enum's default is no default of its field",
        record(F1),
        record(F1, field("f2", enum("A", default="A"))),
        False,
        True,
    ),
    # names
    AvroCase("a record is renamed", record(F1), record(F1, name="S"), False, False),
    AvroCase("a record is renamed with an alias", record(F1), record(F1, name="S", aliases=["R"]), True, False),
    AvroCase("a namespace is changed", record(F1, namespace="a"), record(F1, namespace="b"), True, True),
    AvroCase(
        "an alias of another namespace", record(F1, namespace="a"), record(F1, name="b.S", aliases=["a.R"]), True, False
    ),
    AvroCase(
        "an alias of the same namespace only",
        record(F1, name="a.R"),
        record(F1, name="b.S", aliases=["R"]),
        False,
        False,
    ),
    AvroCase("an enum is renamed", enum("A"), enum("A", name="E2"), False, False),
    AvroCase("a fixed is renamed", fixed(4), fixed(4, name="G"), False, False),
    # enums and fixed
    AvroCase("a symbol is added", enum("A", "B"), enum("A", "B", "C"), True, False),
    AvroCase("a symbol is added, both have a default", enum("A", default="A"), enum("A", "B", default="A"), True, True),
    AvroCase("a symbol is removed, the reader has a default", enum("A", "B"), enum("A", default="A"), True, True),
    AvroCase("symbols in another order", enum("A", "B"), enum("B", "A"), True, True),
    AvroCase("another size", fixed(4), fixed(8), False, False),
    # unions
    AvroCase("a type becomes a union", "int", ["null", "int"], True, False),
    AvroCase("a union of one type", "int", ["int"], True, True),
    AvroCase("a branch is added", ["null", "int"], ["null", "int", "string"], True, False),
    AvroCase("branches in another order", ["null", "int"], ["int", "null"], True, True),
    AvroCase("a branch is promoted", ["null", "int"], ["null", "long"], True, False),
    AvroCase("a union becomes a type that reads both", ["int", "float"], "double", True, False),
    AvroCase("a union becomes a type that reads one", ["int", "string"], "long", False, False),
    AvroCase("string and bytes in unions", ["null", "string"], ["null", "bytes"], True, True),
    AvroCase(
        "a record in a union gets a field", ["null", record(F1)], ["null", record(F1, field("g", "int"))], False, True
    ),
    AvroCase("a union without branches reads nothing", [], ["int"], True, False),
    # nested and recursive
    AvroCase(
        "a nested field without a default is added",
        record(field("in", INNER)),
        record(field("in", record(field("x", "int"), field("y", "int"), name="Inner"))),
        False,
        True,
    ),
    AvroCase("a recursive record", TREE, TREE, True, True),
    AvroCase("a recursive record is promoted", TREE, WIDE_TREE, True, False),
    AvroCase("a recursive record gets a field", TREE, NEW_FIELD_TREE, False, True),
    AvroCase("a recursive record becomes a list", TREE, array("int"), False, False),
    AvroCase(
        "records in each other",
        record(field("b", ["null", record(field("a", ["null", "R"]), name="B")])),
        record(field("b", ["null", record(field("a", ["null", "R"]), field("n", "int", default=0), name="B")])),
        True,
        True,
    ),
)


def text(document: Any) -> str:
    return json.dumps(document)
