from __future__ import annotations

from kqueue.schema_registry.schemas.avro.parser import AvroParser
from kqueue.schema_registry.schemas.avro.printer import AvroPrinter
from kqueue.schema_registry.schemas.json_text import compact
from kqueue.tests.schema_registry.schemas.avro.cases import array, enum, field, fixed, record


def printed(document: object, **options: bool) -> str:
    return compact(AvroPrinter(**options).document(AvroParser().parse(document)))


def test_attributes_are_in_the_order_of_apache_avro() -> None:
    document = {
        "extra": 1,
        "fields": [{"aliases": ["b"], "p": 2, "order": "ignore", "default": 1, "doc": "d", "type": "int", "name": "a"}],
        "aliases": ["S"],
        "doc": "text",
        "namespace": "n",
        "name": "R",
        "type": "record",
    }
    assert printed(document) == (
        '{"type":"record","name":"R","namespace":"n","doc":"text","fields":[{"name":"a","type":"int","doc":"d",'
        '"default":1,"order":"ignore","aliases":["b"],"p":2}],"extra":1,"aliases":["S"]}'
    )


def test_primitive_is_an_object_only_with_attributes() -> None:
    assert printed({"type": "string"}) == '"string"'
    assert printed({"type": "int", "logicalType": "date"}) == '{"type":"int","logicalType":"date"}'


def test_second_use_of_a_type_is_its_name_relative_to_the_namespace() -> None:
    document = record(
        field("a", fixed(4, name="F")), field("b", "n.F"), field("c", record(field("d", "n.F"), name="m.S")), name="n.R"
    )
    assert printed(document) == (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":4}},'
        '{"name":"b","type":"F"},{"name":"c","type":{"type":"record","name":"S","namespace":"m","fields":'
        '[{"name":"d","type":"n.F"}]}}]}'
    )


def test_type_without_a_namespace_in_one_keeps_none() -> None:
    document = record(field("a", fixed(4, namespace="")), name="n.R")
    once = AvroPrinter().document(AvroParser().parse(document))
    assert once["fields"][0]["type"]["namespace"] == ""
    assert AvroPrinter().document(AvroParser().parse(once)) == once


def test_default_of_ascending_order_and_null_default() -> None:
    document = record(field("a", ["null", "int"], default=None, order="ASCENDING"))
    assert (
        printed(document) == '{"type":"record","name":"R","fields":[{"name":"a","type":["null","int"],"default":null}]}'
    )


def test_normal_form_is_one_for_other_orders_of_attributes() -> None:
    one = {"type": "int", "logicalType": "date", "b": {"y": 1, "x": 2}, "a": 1}
    other = {"a": 1, "b": {"x": 2, "y": 1}, "logicalType": "date", "type": "int"}
    assert printed(one) != printed(other)
    assert printed(one, is_normal=True) == printed(other, is_normal=True)
    assert printed(record(aliases=["z", "y"], doc=""), is_normal=True) == printed(
        record(aliases=["y", "z"]), is_normal=True
    )
    assert printed(enum("B", "A"), is_normal=True) != printed(enum("A", "B"), is_normal=True)


def test_known_names_are_written_as_names() -> None:
    parser = AvroParser()
    parser.parse(record(name="n.Inner"))
    assert AvroPrinter(["n.Inner"]).document(parser.parse(array("n.Inner"))) == array("n.Inner")
