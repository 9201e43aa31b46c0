"""The comparison of arrays: items, by their place or all alike, and the content model."""

from __future__ import annotations

from typing import Any

from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.content_model import (
    ContentModel,
    compare_added,
    compare_content_models,
    compare_removed,
    content_model,
)
from kqueue.schema_registry.schemas.json_schema.views import SchemaView, SchemaViews


def compare_arrays(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare two arrays."""
    before = _content_model(comparison.original, original)
    after = _content_model(comparison.update, update)
    of_all = _item_of_all(comparison.original, original), _item_of_all(comparison.update, update)
    differences.include(comparison.compare(*of_all), "items")
    _compare_items(comparison, original, update, (before, after), differences)
    compare_content_models(comparison, before, after, differences, "Items")
    for keyword, kind in (("maxItems", "MAX_ITEMS"), ("minItems", "MIN_ITEMS")):
        differences.bound(keyword, kind, original.keywords.get(keyword), update.keywords.get(keyword))
    was_unique, is_unique = (view.keywords.get("uniqueItems") is True for view in (original, update))
    if was_unique != is_unique:
        differences.add("UNIQUE_ITEMS_ADDED" if is_unique else "UNIQUE_ITEMS_REMOVED", "uniqueItems")
    differences.bound(
        "maxContains", "MAX_CONTAINS", original.keywords.get("maxContains"), update.keywords.get("maxContains")
    )
    differences.bound("minContains", "MIN_CONTAINS", _min_contains(original), _min_contains(update))


def _content_model(views: SchemaViews, view: SchemaView) -> ContentModel:
    return content_model(views, view, _rest_keyword(view), "unevaluatedItems")


def _min_contains(view: SchemaView) -> Any:
    """Return how many items have to match ``contains``; None: no number is demanded."""
    default = 1 if "contains" in view.keywords and view.location.draft.is_modern else None
    return view.keywords.get("minContains", default)


def _rest_keyword(view: SchemaView) -> str:
    """Return the keyword for items that have no place: 2020-12 has ``items`` for that."""
    return "items" if "prefixItems" in view.keywords and view.location.draft.has_prefix_items else "additionalItems"


def _items(view: SchemaView) -> list[Any]:
    """Return the schemas by place."""
    listed = view.keywords.get("prefixItems" if _rest_keyword(view) == "items" else "items")
    return listed if isinstance(listed, list) else []


def _item_of_all(views: SchemaViews, view: SchemaView) -> SchemaView | None:
    """Return the schema of all items; None: there is none."""
    items = view.keywords.get("items")
    if items is None or isinstance(items, list) or _rest_keyword(view) == "items":
        return None
    return views.child(view, items)


def _compare_items(
    comparison: SchemaComparison,
    original: SchemaView,
    update: SchemaView,
    models: tuple[ContentModel, ContentModel],
    differences: DifferenceList,
) -> None:
    before = [comparison.original.child(original, one) for one in _items(original)]
    after = [comparison.update.child(update, one) for one in _items(update)]
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        differences.include(comparison.compare(old, new), "items", str(number))
    for number in range(len(after), len(before)):
        compare_removed(comparison, before[number], models[1], differences, "ITEM", "items", str(number))
    for number in range(len(before), len(after)):
        path = "items", str(number)
        if not models[0].is_open:
            compare_added(comparison, after[number], models[0], differences, "ITEM", *path)
        elif not after[number].is_empty:
            differences.add("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", *path)
