"""The table of the differences between JSON Schemas: which of them a reader can live with.

Source: the kinds and the compatible set of Confluent's Schema Registry, whose policy is STRICT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.schema_registry.schemas.contract import Incompatibility

COMPATIBLE = frozenset({
    "TYPE_EXTENDED", "SCHEMA_REMOVED",
    "MAX_LENGTH_INCREASED", "MAX_LENGTH_REMOVED", "MIN_LENGTH_DECREASED", "MIN_LENGTH_REMOVED", "PATTERN_REMOVED",
    "MAXIMUM_INCREASED", "MAXIMUM_REMOVED", "MINIMUM_DECREASED", "MINIMUM_REMOVED",
    "EXCLUSIVE_MAXIMUM_INCREASED", "EXCLUSIVE_MAXIMUM_REMOVED", "EXCLUSIVE_MINIMUM_DECREASED",
    "EXCLUSIVE_MINIMUM_REMOVED", "MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED",
    "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "REQUIRED_ATTRIBUTE_REMOVED",
    "DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED", "DEPENDENCY_SCHEMA_REMOVED",
    "MAX_PROPERTIES_INCREASED", "MAX_PROPERTIES_REMOVED", "MIN_PROPERTIES_DECREASED", "MIN_PROPERTIES_REMOVED",
    "ADDITIONAL_PROPERTIES_ADDED", "ADDITIONAL_PROPERTIES_EXTENDED",
    "UNEVALUATED_PROPERTIES_ADDED", "UNEVALUATED_PROPERTIES_EXTENDED",
    "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL", "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
    "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "MAX_ITEMS_INCREASED", "MAX_ITEMS_REMOVED", "MIN_ITEMS_DECREASED", "MIN_ITEMS_REMOVED", "UNIQUE_ITEMS_REMOVED",
    "MAX_CONTAINS_INCREASED", "MAX_CONTAINS_REMOVED", "MIN_CONTAINS_DECREASED", "MIN_CONTAINS_REMOVED",
    "ADDITIONAL_ITEMS_ADDED", "ADDITIONAL_ITEMS_EXTENDED", "UNEVALUATED_ITEMS_ADDED", "UNEVALUATED_ITEMS_EXTENDED",
    "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
    "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
    "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "ENUM_ARRAY_EXTENDED", "COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED", "SUM_TYPE_EXTENDED", "NOT_TYPE_NARROWED",
})  # fmt: skip
"""Differences by which the new schema takes all values that the old one took."""

_ADDED = "The keyword at path '{path}' of the {{reader}} schema is not in the {{writer}} schema"
_MORE = "The value at path '{path}' of the {{reader}} schema is larger than in the {{writer}} schema"
_LESS = "The value at path '{path}' of the {{reader}} schema is smaller than in the {{writer}} schema"
_CHANGED = "The value at path '{path}' of the {{reader}} schema is another one than in the {{writer}} schema"
_FEWER = "The {{reader}} schema takes fewer values or types at path '{path}' than the {{writer}} schema"
_NARROWER = "The {{reader}} schema demands more at path '{path}' than the {{writer}} schema"
_TYPE = "The type at path '{path}' of the {{reader}} schema is another one than in the {{writer}} schema"
_OPEN = (
    "The {{reader}} schema has a property or item at path '{path}' that the {{writer}} schema does not have; as that "
    "has an open content model, values may be there that do not fit"
)
_UNCOVERED_ADDED = (
    "The {{reader}} schema has a property or item at path '{path}' that the {{writer}} schema does not have, and that "
    "does not take all that its partially open content model took there"
)
_UNCOVERED_REMOVED = (
    "The {{reader}} schema lacks the property or item at path '{path}' of the {{writer}} schema, and its partially "
    "open content model does not take all that was valid there"
)
_CLOSED = (
    "The {{reader}} schema has a closed content model, and lacks the property or item at path '{path}' of the "
    "{{writer}} schema"
)

INCOMPATIBLE: Mapping[str, str] = {
    "SCHEMA_ADDED": _ADDED, "TYPE_NARROWED": _TYPE, "TYPE_CHANGED": _TYPE,
    "MAX_LENGTH_ADDED": _ADDED, "MAX_LENGTH_DECREASED": _LESS,
    "MIN_LENGTH_ADDED": _ADDED, "MIN_LENGTH_INCREASED": _MORE, "PATTERN_ADDED": _ADDED, "PATTERN_CHANGED": _CHANGED,
    "MAXIMUM_ADDED": _ADDED, "MAXIMUM_DECREASED": _LESS, "MINIMUM_ADDED": _ADDED, "MINIMUM_INCREASED": _MORE,
    "EXCLUSIVE_MAXIMUM_ADDED": _ADDED, "EXCLUSIVE_MAXIMUM_DECREASED": _LESS,
    "EXCLUSIVE_MINIMUM_ADDED": _ADDED, "EXCLUSIVE_MINIMUM_INCREASED": _MORE,
    "MULTIPLE_OF_ADDED": _ADDED, "MULTIPLE_OF_EXPANDED": _MORE, "MULTIPLE_OF_CHANGED": _CHANGED,
    "REQUIRED_ATTRIBUTE_ADDED": "The property at path '{path}' is required in the {{reader}} schema, without a "
    "default, and not in the {{writer}} schema",
    "DEPENDENCY_ARRAY_ADDED": _ADDED, "DEPENDENCY_ARRAY_EXTENDED": _NARROWER, "DEPENDENCY_ARRAY_CHANGED": _CHANGED,
    "DEPENDENCY_SCHEMA_ADDED": _ADDED,
    "MAX_PROPERTIES_ADDED": _ADDED, "MAX_PROPERTIES_DECREASED": _LESS,
    "MIN_PROPERTIES_ADDED": _ADDED, "MIN_PROPERTIES_INCREASED": _MORE,
    "ADDITIONAL_PROPERTIES_REMOVED": _ADDED, "ADDITIONAL_PROPERTIES_NARROWED": _FEWER,
    "UNEVALUATED_PROPERTIES_REMOVED": _ADDED, "UNEVALUATED_PROPERTIES_NARROWED": _FEWER,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The property at path '{path}' of the {{reader}} schema is "
    "required, and the {{writer}} schema, whose content model is not open, does not have it",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _UNCOVERED_ADDED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _UNCOVERED_REMOVED,
    "MAX_ITEMS_ADDED": _ADDED, "MAX_ITEMS_DECREASED": _LESS, "MIN_ITEMS_ADDED": _ADDED, "MIN_ITEMS_INCREASED": _MORE,
    "UNIQUE_ITEMS_ADDED": _ADDED,
    "MAX_CONTAINS_ADDED": _ADDED, "MAX_CONTAINS_DECREASED": _LESS,
    "MIN_CONTAINS_ADDED": _ADDED, "MIN_CONTAINS_INCREASED": _MORE,
    "ADDITIONAL_ITEMS_REMOVED": _ADDED, "ADDITIONAL_ITEMS_NARROWED": _FEWER,
    "UNEVALUATED_ITEMS_REMOVED": _ADDED, "UNEVALUATED_ITEMS_NARROWED": _FEWER,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN, "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _UNCOVERED_ADDED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _UNCOVERED_REMOVED,
    "ENUM_ARRAY_NARROWED": _FEWER, "ENUM_ARRAY_CHANGED": _CHANGED,
    "COMBINED_TYPE_CHANGED": _TYPE, "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "PRODUCT_TYPE_EXTENDED": _NARROWER, "SUM_TYPE_NARROWED": _FEWER, "NOT_TYPE_EXTENDED": _NARROWER,
}  # fmt: skip
"""Differences by which the new schema refuses values that the old one took: by kind, why."""


class Difference(NamedTuple):
    """An incompatible difference. `path`: relative to the pair that was compared."""

    kind: str
    path: tuple[str, ...]

    def incompatibility(self) -> Incompatibility:
        """Return it as responses show it; the path is relative to the whole schema."""
        path = "#/" + "/".join(self.path)
        shown = path.replace("{", "{{").replace("}", "}}")
        return Incompatibility(self.kind, path, INCOMPATIBLE[self.kind].format(path=shown))
