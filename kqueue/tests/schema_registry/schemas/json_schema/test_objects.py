from __future__ import annotations

from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.kinds import BY_KIND
from kqueue.schema_registry.schemas.json_schema.objects import compare_objects
from kqueue.schema_registry.schemas.json_schema.views import SchemaViews


def test_lists_and_schemas_of_dependencies_are_compared_apart() -> None:
    newest = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    old = SchemaViews(SchemaDocuments({**newest, "dependentRequired": {"a": ["b"]}}, {}))
    new = SchemaViews(
        SchemaDocuments({**newest, "dependentRequired": {"a": ["c"]}, "dependentSchemas": {"a": False}}, {})
    )
    differences = DifferenceList()
    compare_objects(SchemaComparison(old, new, BY_KIND), old.root(), new.root(), differences)
    assert [(one.kind, one.path) for one in differences.result()] == [
        ("DEPENDENCY_ARRAY_CHANGED", ("dependencies", "a")),
        ("DEPENDENCY_SCHEMA_ADDED", ("dependencies", "a")),
    ]
