from __future__ import annotations

from typing import Any

from kqueue.schema_registry.schemas.json_schema.arrays import compare_arrays
from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.kinds import BY_KIND
from kqueue.schema_registry.schemas.json_schema.views import SchemaViews


def kinds(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, after = SchemaViews(SchemaDocuments(old, {})), SchemaViews(SchemaDocuments(new, {}))
    differences = DifferenceList()
    compare_arrays(SchemaComparison(before, after, BY_KIND), before.root(), after.root(), differences)
    return [one.kind for one in differences.result()]


def test_items_beside_prefix_items_are_the_rest_in_2020_12_only() -> None:
    newest = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert kinds({**newest, "prefixItems": [{}]}, {**newest, "prefixItems": [{}], "items": False}) == [
        "ADDITIONAL_ITEMS_REMOVED"
    ]
    assert kinds({"prefixItems": [{}]}, {"prefixItems": [{}], "items": False}) == ["SCHEMA_ADDED"]


def test_removed_items_of_a_closed_model() -> None:
    assert kinds({"items": [{}, {}]}, {"items": [{}], "additionalItems": False}) == [
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ADDITIONAL_ITEMS_REMOVED",
    ]
