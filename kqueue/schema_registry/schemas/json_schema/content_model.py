"""The content model of objects and arrays: what is valid where no property or item is named.

Open: anything is. Closed: nothing is. Partially open: what a schema says, perhaps one by pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kqueue.schema_registry.schemas.json_schema.comparison import DifferenceList, SchemaComparison
from kqueue.schema_registry.schemas.json_schema.drafts import matches
from kqueue.schema_registry.schemas.json_schema.views import SchemaView, SchemaViews


@dataclass(frozen=True, slots=True)
class ContentModel:
    """The rest of an object or array.

    Attributes:
        permits: whether ``additional…`` is not false.
        additional: its schema; None: true, false, or none.
        unevaluated: that of ``unevaluated…``; None: none.
        patterns: schemas by pattern of the name.
    """

    permits: bool
    additional: SchemaView | None
    unevaluated: SchemaView | None
    patterns: tuple[tuple[str, SchemaView], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether anything is valid."""
        return (
            self.permits
            and self.additional is None
            and not self.patterns
            and (self.unevaluated is None or self.unevaluated.is_empty)
        )

    def schema_of(self, name: str) -> SchemaView | None:
        """Return the schema of what is not named; None: nothing is valid, or anything."""
        for pattern, view in self.patterns:
            if matches(pattern, name):
                return view
        if self.additional is not None or not self.permits:
            return self.additional
        if self.unevaluated is None or self.unevaluated.kind in ("empty", "true", "false"):
            return None
        return self.unevaluated


def content_model(
    views: SchemaViews, view: SchemaView, additional: str, unevaluated: str, *, patterns: str | None = None
) -> ContentModel:
    """Return the content model of a schema. Args: the names of its keywords."""
    keywords = view.keywords
    rest = keywords.get(additional, True)
    listed = keywords.get(patterns) if patterns else None
    return ContentModel(
        rest is not False,
        None if isinstance(rest, bool) else views.child(view, rest),
        views.child(view, keywords[unevaluated]) if unevaluated in keywords else None,
        tuple((name, views.child(view, one)) for name, one in listed.items()) if isinstance(listed, dict) else (),
    )


def compare_content_models(
    comparison: SchemaComparison,
    before: ContentModel,
    after: ContentModel,
    differences: DifferenceList,
    noun: str,
) -> None:
    """Compare what is valid beside the named. `noun`: ``Properties`` or ``Items``."""
    kind, path = f"ADDITIONAL_{noun.upper()}", f"additional{noun}"
    if before.permits != after.permits:
        differences.add(f"{kind}_ADDED" if after.permits else f"{kind}_REMOVED", path)
    elif before.additional is None or after.additional is None:
        if before.additional is not after.additional:
            differences.add(f"{kind}_NARROWED" if before.additional is None else f"{kind}_EXTENDED", path)
    else:
        differences.include(comparison.compare(before.additional, after.additional), path)
    _compare_unevaluated(comparison, before.unevaluated, after.unevaluated, differences, noun)


def _compare_unevaluated(
    comparison: SchemaComparison,
    before: SchemaView | None,
    after: SchemaView | None,
    differences: DifferenceList,
    noun: str,
) -> None:
    kind, path = f"UNEVALUATED_{noun.upper()}", f"unevaluated{noun}"
    if before is None and after is None:
        return
    was_false, is_false = _is_false(before), _is_false(after)
    was_any, is_any = before is None or before.is_empty, after is None or after.is_empty
    if was_false != is_false:
        differences.add(f"{kind}_REMOVED" if is_false else f"{kind}_ADDED", path)
    elif was_any != is_any:
        differences.add(f"{kind}_NARROWED" if was_any else f"{kind}_EXTENDED", path)
    elif before is not None and after is not None:
        differences.include(comparison.compare(before, after), path)


def _is_false(view: SchemaView | None) -> bool:
    return view is not None and view.kind == "false"


def compare_removed(
    comparison: SchemaComparison,
    removed: SchemaView,
    model: ContentModel,
    differences: DifferenceList,
    noun: str,
    *path: str,
) -> None:
    """Compare a property or item that the update does not name with the update's content model.

    Args: noun: ``PROPERTY`` or ``ITEM``. path: where it was; the last part is its name.
    """
    if model.is_open:
        differences.add(f"{noun}_REMOVED_FROM_OPEN_CONTENT_MODEL", *path)
        return
    covering = model.schema_of(path[-1])
    if covering is None:
        how = "WITH_FALSE_REMOVED" if removed.kind == "false" else "REMOVED"
        differences.add(f"{noun}_{how}_FROM_CLOSED_CONTENT_MODEL", *path)
        return
    found = comparison.compare(removed, covering)
    differences.include(found, *path)
    how = "NOT" if found else "IS"
    differences.add(f"{noun}_REMOVED_{how}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", *path)


def compare_added(
    comparison: SchemaComparison,
    added: SchemaView,
    model: ContentModel,
    differences: DifferenceList,
    noun: str,
    *path: str,
) -> None:
    """Compare a property or item with what the original's content model, not an open one, says of
    its place. Args: as those of `compare_removed`.
    """
    covering = model.schema_of(path[-1])
    if covering is not None:
        found = comparison.compare(covering, added)
        differences.include(found, *path)
        how = "NOT" if found else "IS"
        differences.add(f"{noun}_ADDED_{how}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", *path)


def named(keywords: Any) -> dict[str, Any]:
    """Return a keyword's object; empty: it is none."""
    return keywords if isinstance(keywords, dict) else {}
