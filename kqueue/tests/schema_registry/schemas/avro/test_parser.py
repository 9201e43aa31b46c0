from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema, schema_type
from kqueue.schema_registry.schemas.avro.model import AvroArray, AvroRecord
from kqueue.schema_registry.schemas.avro.parser import AvroParser
from kqueue.tests.schema_registry.schemas.avro.cases import array, enum, field, fixed, record, text

pytest.importorskip("fastavro")


def test_name_is_looked_for_in_its_namespace_and_then_without_one() -> None:
    parser = AvroParser()
    plain = parser.parse(record(name="Plain"))
    inner = parser.parse(record(name="n.Inner"))
    outer = parser.parse(record(field("a", "Inner"), field("b", "Plain"), name="n.Outer"))
    assert isinstance(outer, AvroRecord)
    assert [one.type for one in outer.fields] == [inner, plain]


def test_record_in_itself_is_the_same_type() -> None:
    tree = AvroParser().parse(record(field("children", array("R"))))
    assert isinstance(tree, AvroRecord)
    children = tree.fields[0].type
    assert isinstance(children, AvroArray)
    assert children.items is tree


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (5, "a name, an object or a list, not 5"),
        ("nothing", "There is no type 'nothing'"),
        ({}, 'needs "type"'),
        ({"type": {"type": "int"}}, 'needs "type" with a name'),
        ({"type": "record", "fields": []}, 'needs "name"'),
        ({"type": "record", "name": "R"}, 'needs "fields"'),
        (record(name="1R"), "is named '1R'"),
        (record(name="a b"), "is named 'a b'"),
        (record(name="int"), "that of a primitive type"),
        (record(field("a", record())), "The type R is defined twice"),
        (record(field("a", "int"), field("a", "int")), "two fields a"),
        (record(field("a-b", "int")), "is named 'a-b'"),
        (record("a"), "is no object"),
        (record(field("a", "int", order="up")), "the order 'up'"),
        (record(field("a", "int", aliases="b")), "aliases that are no list"),
        ({"type": "record", "name": "R", "fields": "x"}, "no list"),
        (record(namespace=5), "is no text"),
        (enum("A", "A"), "a symbol twice"),
        (enum("A-"), "is named 'A-'"),
        (enum("A", default="B"), "none of its symbols"),
        ({"type": "enum", "name": "E"}, 'needs "symbols"'),
        ({"type": "enum", "name": "E", "symbols": "A"}, "no list"),
        (fixed(-1), "is -1"),
        ({"type": "fixed", "name": "F", "size": "4"}, "is '4'"),
        ({"type": "fixed", "name": "F", "size": True}, "is True"),
        ({"type": "array"}, 'needs "items"'),
        ({"type": "map"}, 'needs "values"'),
        (["int", "int"], "has 'int' twice"),
        (["int", ["null"]], "directly in a union"),
        ([array("int"), array("string")], "has 'array' twice"),
    ],
)
def test_invalid_schema_is_refused_with_the_reason(document: object, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        schema_type("AVRO").parse(text(document), [])
