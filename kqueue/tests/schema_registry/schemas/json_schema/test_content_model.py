from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.schemas.json_schema.content_model import ContentModel, content_model
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.views import SchemaViews

NEWEST = "https://json-schema.org/draft/2020-12/schema"


def model(**keywords: Any) -> ContentModel:
    views = SchemaViews(SchemaDocuments({"$schema": NEWEST, "type": "object", **keywords}, {}))
    return content_model(
        views, views.root(), "additionalProperties", "unevaluatedProperties", patterns="patternProperties"
    )


@pytest.mark.parametrize(
    ("keywords", "is_open", "kind"),
    [
        ({}, True, None),
        ({"additionalProperties": True}, True, None),
        ({"additionalProperties": False}, False, None),
        ({"additionalProperties": {}}, False, "empty"),
        ({"additionalProperties": {"type": "string"}}, False, "string"),
        ({"patternProperties": {"^b": {}}}, False, None),
        ({"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False}, False, "null"),
        ({"unevaluatedProperties": True}, True, None),
        ({"unevaluatedProperties": False}, False, None),
        ({"unevaluatedProperties": {"type": "string"}}, False, "string"),
        ({"unevaluatedProperties": {"type": "string"}, "additionalProperties": False}, False, None),
    ],
)
def test_content_model_says_what_is_valid_where_nothing_is_named(
    keywords: dict[str, Any], is_open: bool, kind: str | None
) -> None:
    one = model(**keywords)
    found = one.schema_of("a")
    assert (one.is_open, None if found is None else found.kind) == (is_open, kind)
