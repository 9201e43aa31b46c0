from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.views import SchemaViews


def view(schema: Any) -> Any:
    return SchemaViews(SchemaDocuments(schema, {})).root()


@pytest.mark.parametrize(
    ("schema", "kind", "members"),
    [
        (True, "true", []),
        (False, "false", []),
        ({}, "empty", []),
        ({"title": "text"}, "empty", []),
        ({"type": "integer"}, "number", []),
        ({"minLength": 1}, "string", []),
        ({"properties": {}}, "object", []),
        ({"items": {}}, "array", []),
        ({"if": {}}, "conditional", []),
        ({"type": "string", "enum": ["a"]}, "allOf", ["enum", "string"]),
        ({"type": ["string", "null"]}, "anyOf", ["string", "null"]),
        ({"type": "string", "maximum": 3}, "allOf", ["string", "number"]),
        ({"oneOf": [{"type": "string"}, {}]}, "oneOf", ["string", "empty"]),
        ({"oneOf": [{}], "allOf": [{}]}, "allOf", ["allOf", "oneOf"]),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}}, "null", []),
        ({"$ref": "http://json-schema.org/draft-04/schema"}, "meta", []),
    ],
)
def test_schema_is_seen_as_one_kind(schema: Any, kind: str, members: list[str]) -> None:
    seen = view(schema)
    assert (seen.kind, [one.kind for one in seen.members]) == (kind, members)


def test_recursive_schema_is_one_view() -> None:
    schema = {"anyOf": [{"type": "null"}, {"$ref": "#"}]}
    seen = view(schema)
    assert seen.members[1] is seen


def test_schemas_that_only_refer_to_each_other_are_refused() -> None:
    schema = {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
    }
    with pytest.raises(InvalidSchema, match="only lead to each other"):
        view(schema)


def test_fingerprint_does_not_depend_on_the_order_of_members() -> None:
    one, other = view({"type": "string", "maxLength": 1}), view({"maxLength": 1, "type": "string"})
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != view({"type": "string", "maxLength": 2}).fingerprint()
