from __future__ import annotations

import hashlib
from typing import Any

import pytest

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.schema_registry.schema_content import SchemaContent, SchemaReference, parse_content
from kqueue.tests.schema_registry.support import STRING, content
from kqueue.tests.tables import for_each


def test_md5_of_a_text_alone_is_that_of_the_text() -> None:
    assert content().md5 == hashlib.md5(STRING.encode(), usedforsecurity=False).digest()


def test_md5_depends_on_references_metadata_and_rules() -> None:
    plain = content()
    others = [
        plain.with_references((SchemaReference("n", "s", 1),)),
        plain.with_references((SchemaReference("n", "s", 2),)),
        plain.with_contract({}, None),
        plain.with_contract({"properties": {"a": "b"}}, None),
        plain.with_contract({"properties": {"a": "b"}}, {}),
        plain.with_text('"int"'),
    ]
    assert len({plain.md5, *(one.md5 for one in others)}) == 7


def test_schemas_of_two_types_with_one_text_are_two_schemas() -> None:
    assert content().identity != SchemaContent("JSON", STRING).identity


def test_fields_have_confluents_order_and_leave_out_what_is_not_there() -> None:
    assert content().fields() == {"schema": STRING}
    full = SchemaContent("JSON", "{}", (SchemaReference("n", "s", 3),), {"properties": {"a": "b"}}, {})
    assert list(full.fields()) == ["schemaType", "references", "metadata", "ruleSet", "schema"]
    assert full.fields()["references"] == [{"name": "n", "subject": "s", "version": 3}]
    assert parse_content(full.fields(), DEFAULT_LIMITS) == full


@for_each(
    "fields, code",
    [
        ({}, 42201),
        ({"schema": 7}, 42201),
        ({"schema": "\ud800"}, 42201),
        ({"schema": "x" * 1_000_001}, 42209),
        ({"schema": "x", "schemaType": 7}, 42201),
        ({"schema": "x", "references": {}}, 42201),
        ({"schema": "x", "references": [7]}, 42201),
        ({"schema": "x", "references": [{}]}, 42201),
        ({"schema": "x", "references": [{"name": "n", "subject": "s"}]}, 42201),
        ({"schema": "x", "references": [{"name": "n", "subject": "s", "version": True}]}, 42201),
        ({"schema": "x", "references": [{"name": "n", "subject": "s", "version": 0}]}, 42201),
        ({"schema": "x", "references": [{"name": "n", "subject": "\ud800", "version": 1}]}, 42201),
        ({"schema": "x", "references": [{"name": "n", "subject": "s", "version": 1}] * 2}, 42201),
        ({"schema": "x", "references": [{}] * 101}, 42209),
        ({"schema": "x", "metadata": 7}, 42210),
        ({"schema": "x", "ruleSet": 7}, 42210),
    ],
)
def test_schema_of_other_types_or_beyond_the_limits_is_refused(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_content(fields, DEFAULT_LIMITS)
    assert caught.value.code == code


def test_stored_schema_is_not_measured_by_the_limits() -> None:
    assert len(parse_content({"schema": "x" * 1_000_001}, None).text) == 1_000_001


def test_schema_without_a_type_is_avro() -> None:
    assert parse_content({"schema": "x", "schemaType": ""}, DEFAULT_LIMITS) == SchemaContent("AVRO", "x")
    assert parse_content({"schema": "x", "unknown": 1}, DEFAULT_LIMITS) == SchemaContent("AVRO", "x")
