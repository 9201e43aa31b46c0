"""The comparison of objects: properties, required ones, dependencies, and the content model."""

from __future__ import annotations

from typing import Any

from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.content_model import (
    ContentModel,
    compare_added,
    compare_content_models,
    compare_removed,
    content_model,
    named,
)
from kqueue.schema_registry.schemas.json_schema.views import SchemaView, SchemaViews


def compare_objects(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare two objects."""
    before = _content_model(comparison.original, original)
    after = _content_model(comparison.update, update)
    _compare_required(original, update, differences)
    _compare_properties(comparison, original, update, (before, after), differences)
    _compare_dependencies(comparison, original, update, differences)
    compare_content_models(comparison, before, after, differences, "Properties")
    for keyword, kind in (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")):
        differences.bound(keyword, kind, original.keywords.get(keyword), update.keywords.get(keyword))


def _content_model(views: SchemaViews, view: SchemaView) -> ContentModel:
    return content_model(views, view, "additionalProperties", "unevaluatedProperties", patterns="patternProperties")


def _compare_required(original: SchemaView, update: SchemaView, differences: DifferenceList) -> None:
    """Compare which of the properties that both name are required."""
    before, after = _required(original), _required(update)
    properties = named(update.keywords.get("properties"))
    for name in named(original.keywords.get("properties")):
        if name not in properties:
            continue
        if name in before and name not in after:
            differences.add("REQUIRED_ATTRIBUTE_REMOVED", "required", name)
        elif name in after and name not in before:
            how = "_WITH_DEFAULT" if _has_default(properties[name]) else ""
            differences.add(f"REQUIRED_ATTRIBUTE{how}_ADDED", "required", name)


def _compare_properties(
    comparison: SchemaComparison,
    original: SchemaView,
    update: SchemaView,
    models: tuple[ContentModel, ContentModel],
    differences: DifferenceList,
) -> None:
    before, after = named(original.keywords.get("properties")), named(update.keywords.get("properties"))
    required = _required(update)
    for name in dict.fromkeys([*before, *after]):
        comparison.budget.spend(1)
        path = "properties", name
        if name not in after:
            removed = comparison.original.child(original, before[name])
            compare_removed(comparison, removed, models[1], differences, "PROPERTY", *path)
            continue
        view = comparison.update.child(update, after[name])
        if name in before:
            differences.include(comparison.compare(comparison.original.child(original, before[name]), view), *path)
            continue
        is_open = models[0].is_open
        if is_open and view.is_empty:
            differences.add("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", *path)
            continue
        compare_added(comparison, view, models[0], differences, "PROPERTY", *path)
        how = "OPTIONAL_PROPERTY" if name not in required else "REQUIRED_PROPERTY"
        if name in required and _has_default(after[name]):
            how += "_WITH_DEFAULT"
        differences.add(f"{how}_ADDED_TO_{'OPEN' if is_open else 'UNOPEN'}_CONTENT_MODEL", *path)


def _compare_dependencies(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare which properties need others, or a schema of the whole object."""
    before, after = _dependencies(original), _dependencies(update)
    for name in dict.fromkeys([*before, *after]):
        path = "dependencies", name
        for is_list, kind in ((True, "DEPENDENCY_ARRAY"), (False, "DEPENDENCY_SCHEMA")):
            old, new = (_of_kind(one.get(name), is_list) for one in (before, after))
            if old is None and new is None:
                continue
            if old is None or new is None:
                differences.add(f"{kind}_ADDED" if old is None else f"{kind}_REMOVED", *path)
            elif is_list:
                _compare_needed(set(old), set(new), differences, path)
            else:
                views = comparison.original.child(original, old), comparison.update.child(update, new)
                differences.include(comparison.compare(*views), *path)


def _compare_needed(old: set[str], new: set[str], differences: DifferenceList, path: tuple[str, ...]) -> None:
    if old != new:
        how = "EXTENDED" if new > old else "NARROWED" if old > new else "CHANGED"
        differences.add(f"DEPENDENCY_ARRAY_{how}", *path)


def _dependencies(view: SchemaView) -> dict[str, list[Any]]:
    """Return by property what it needs: lists of names, and schemas."""
    found: dict[str, list[Any]] = {}
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, needed in named(view.keywords.get(keyword)).items():
            found.setdefault(name, []).append(needed)
    return found


def _of_kind(needed: list[Any] | None, is_list: bool) -> Any:
    """Return the list of names, or the schema; None: there is none."""
    return next((one for one in needed or [] if isinstance(one, list) is is_list), None)


def _required(view: SchemaView) -> frozenset[str]:
    required = view.keywords.get("required")
    return frozenset(required) if isinstance(required, list) else frozenset()


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema
