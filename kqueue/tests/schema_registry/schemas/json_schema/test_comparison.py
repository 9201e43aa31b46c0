from __future__ import annotations

from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.differences import Difference
from kqueue.schema_registry.schemas.json_schema.documents import SchemaDocuments
from kqueue.schema_registry.schemas.json_schema.kinds import BY_KIND
from kqueue.schema_registry.schemas.json_schema.views import SchemaViews
from kqueue.schema_registry.schemas.limits import INCOMPATIBILITIES_MAX


def test_compatible_differences_are_dropped_and_paths_are_prefixed() -> None:
    inner = DifferenceList()
    inner.add("MAXIMUM_ADDED", "maximum")
    inner.add("MINIMUM_REMOVED", "minimum")
    outer = DifferenceList()
    outer.include(inner.result(), "properties", "a")
    assert outer.result() == (Difference("MAXIMUM_ADDED", ("properties", "a", "maximum")),)


def test_number_of_differences_is_bounded() -> None:
    many = DifferenceList()
    for _ in range(3 * INCOMPATIBILITIES_MAX):
        many.add("TYPE_CHANGED")
    twice = DifferenceList()
    twice.include(many.result())
    twice.include(many.result())
    assert len(many.result()) == len(twice.result()) == INCOMPATIBILITIES_MAX


def test_missing_schemas() -> None:
    views = SchemaViews(SchemaDocuments({}, {}))
    comparison = SchemaComparison(views, views, BY_KIND)
    assert comparison.compare(None, None) == comparison.compare(views.root(), None) == ()
    assert comparison.compare(None, views.root()) == (Difference("SCHEMA_ADDED", ()),)


def test_schema_that_must_not_match_itself_ends() -> None:
    views, other = (SchemaViews(SchemaDocuments({"not": {"$ref": "#"}}, {})) for _ in range(2))
    SchemaComparison(views, other, BY_KIND).compare(views.root(), other.root())
