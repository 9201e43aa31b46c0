from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments

MODERN = "https://json-schema.org/draft/2020-12/schema"


def meant(root: dict[str, Any], reference: str, **references: Any) -> Any:
    documents = SchemaDocuments(root, references)
    location = documents.resolve(reference, documents.root)
    return None if location is None else location.part


def test_pointer_into_the_own_document() -> None:
    root = {"definitions": {"a/b~": {"const": 1}, "list": [{"const": 2}]}}
    assert meant(root, "#/definitions/a~1b~0") == {"const": 1}
    assert meant(root, "#/definitions/a~1b%7E0") == {"const": 1}
    assert meant(root, "#/definitions/list/0") == {"const": 2}
    assert meant(root, "#") is root


def test_reference_by_its_name_and_by_its_own_uri() -> None:
    other = {"$id": "http://e.org/schemas/other", "const": 1}
    root = {"$id": "http://e.org/schemas/root"}
    assert meant(root, "other.json", **{"other.json": other}) is other
    assert meant(root, "./other.json", **{"other.json": other}) is other
    assert meant(root, "other", **{"other.json": other}) is other
    assert meant(root, "http://e.org/schemas/other#", **{"other.json": other}) is other
    assert meant(root, "http://elsewhere.org/v1/other.json", **{"other.json": other}) is other


def test_anchors_and_nested_identifiers() -> None:
    root = {
        "$schema": MODERN,
        "$id": "http://e.org/root",
        "$defs": {
            "a": {"$anchor": "x", "const": 1},
            "b": {"$id": "inner", "$defs": {"c": {"const": 2}, "d": {"$ref": "#/$defs/c"}}},
        },
    }
    assert meant(root, "#x") == {"$anchor": "x", "const": 1}
    assert meant(root, "inner#/$defs/c") == {"const": 2}
    documents = SchemaDocuments(root, {})
    (inner,) = [one for one in documents.parts() if one.part.get("$ref")]
    resolved = documents.resolve("#/$defs/c", inner)
    assert resolved is not None
    assert resolved.part == {"const": 2}


def test_draft_4_has_id_without_a_dollar() -> None:
    root = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "definitions": {"a": {"id": "#own", "enum": [1]}},
    }
    assert meant(root, "#own") == {"id": "#own", "enum": [1]}


def test_meta_schemas_of_the_drafts_are_known_without_a_document() -> None:
    assert meant({}, "http://json-schema.org/draft-07/schema#") is None


@pytest.mark.parametrize(
    "reference", ["other.json", "http://127.0.0.1:1/a", "#/definitions/none", "#none", "http://[", "#/x/99999999999"]
)
def test_reference_that_means_nothing_is_refused(reference: str) -> None:
    with pytest.raises(InvalidSchema, match="refers to"):
        meant({"x": []}, reference)


def test_values_are_no_schemas_but_properties_of_their_names_are() -> None:
    root = {"const": {"$ref": "#/none"}, "enum": [{"$id": "x"}], "properties": {"const": {"$anchor": "y"}}}
    parts = [one.part for one in SchemaDocuments(root, {}).parts()]
    assert parts == [root, {"$anchor": "y"}]
