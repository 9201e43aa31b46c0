"""The comparisons of schemas of one kind: strings, numbers, enums, negated and combined ones."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kqueue.schema_registry.schemas.json_schema.arrays import compare_arrays
from kqueue.schema_registry.schemas.json_schema.comparison import (
    CompareKind,
    DifferenceList,
    SchemaComparison,
)
from kqueue.schema_registry.schemas.json_schema.matching import matching_size
from kqueue.schema_registry.schemas.json_schema.objects import compare_objects
from kqueue.schema_registry.schemas.json_schema.views import SchemaView
from kqueue.schema_registry.schemas.json_text import compact, sorted_members


def compare_strings(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare lengths and patterns."""
    before, after = original.keywords, update.keywords
    differences.bound("maxLength", "MAX_LENGTH", before.get("maxLength"), after.get("maxLength"))
    differences.bound("minLength", "MIN_LENGTH", before.get("minLength"), after.get("minLength"))
    if before.get("pattern") != after.get("pattern"):
        how = "ADDED" if "pattern" not in before else "REMOVED" if "pattern" not in after else "CHANGED"
        differences.add(f"PATTERN_{how}", "pattern")


def compare_numbers(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare limits, multiples, and whether only whole numbers are valid."""
    before, after = original.keywords, update.keywords
    for keyword, kind in (
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ):
        differences.bound(keyword, kind, _number(before.get(keyword)), _number(after.get(keyword)))
    _compare_multiples(_number(before.get("multipleOf")), _number(after.get("multipleOf")), differences)
    if original.is_integer != update.is_integer:
        differences.add("TYPE_EXTENDED" if original.is_integer else "TYPE_NARROWED")


def _compare_multiples(before: Fraction | None, after: Fraction | None, differences: DifferenceList) -> None:
    if before == after:
        return
    if before is None or after is None:
        how = "ADDED" if before is None else "REMOVED"
    elif after % before == 0:
        how = "EXPANDED"
    else:
        how = "REDUCED" if before % after == 0 else "CHANGED"
    differences.add(f"MULTIPLE_OF_{how}", "multipleOf")


def _number(value: Any) -> Fraction | None:
    """Return a limit, exactly; None: there is none. Draft 4 has booleans beside the limits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def compare_enums(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare the sets of values."""
    before = {compact(sorted_members(one)) for one in original.keywords["enum"]}
    after = {compact(sorted_members(one)) for one in update.keywords["enum"]}
    if before != after:
        how = "EXTENDED" if after >= before else "NARROWED" if before >= after else "CHANGED"
        differences.add(f"ENUM_ARRAY_{how}", "enum")


def compare_constants(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare the only values."""
    if compact(sorted_members(original.keywords["const"])) != compact(sorted_members(update.keywords["const"])):
        differences.add("ENUM_ARRAY_CHANGED", "const")


def compare_negated(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare what must not match, the other way round."""
    before = comparison.original.child(original, original.keywords["not"])
    after = comparison.update.child(update, update.keywords["not"])
    if comparison.reversed(before, after):
        differences.add("NOT_TYPE_EXTENDED", "not")


def compare_combined(
    comparison: SchemaComparison, original: SchemaView, update: SchemaView, differences: DifferenceList
) -> None:
    """Compare sums (``anyOf``, ``oneOf``) and products (``allOf``): as many members as the smaller
    one has need a partner in the other.
    """
    if not _may_follow(original, update):
        differences.add("COMBINED_TYPE_CHANGED")
        return
    before = list({one.fingerprint(): one for one in original.members}.values())
    after = list({one.fingerprint(): one for one in update.members}.values())
    if len(before) < len(after):
        differences.add("PRODUCT_TYPE_EXTENDED" if update.kind == "allOf" else "SUM_TYPE_EXTENDED")
    elif len(before) > len(after):
        differences.add("PRODUCT_TYPE_NARROWED" if original.kind == "allOf" else "SUM_TYPE_NARROWED")
    edges = [[number for number, member in enumerate(after) if not comparison.compare(one, member)] for one in before]
    if matching_size(edges, comparison.budget.spend) < min(len(before), len(after)):
        differences.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def _may_follow(original: SchemaView, update: SchemaView) -> bool:
    """Return whether a combination may become another one, as far as both have partners."""
    is_single, becomes_single = len(original.members) == 1, len(update.members) == 1
    return (
        original.kind == update.kind
        or update.kind == "anyOf"
        or (is_single and (becomes_single or update.kind == "oneOf"))
        or (becomes_single and original.kind == "allOf")
    )


BY_KIND: Mapping[str, CompareKind] = {
    "string": compare_strings,
    "number": compare_numbers,
    "enum": compare_enums,
    "const": compare_constants,
    "not": compare_negated,
    "allOf": compare_combined,
    "anyOf": compare_combined,
    "oneOf": compare_combined,
    "object": compare_objects,
    "array": compare_arrays,
}
"""What compares two schemas of the same kind."""
