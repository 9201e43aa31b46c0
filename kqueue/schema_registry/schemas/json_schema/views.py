"""Schemas as comparisons see them: each of one kind, several kinds at once as an ``allOf``.

``{"type": "string", "enum": ["a"]}`` is seen as an ``allOf`` of an enum and a string, and a list of
types as an ``anyOf``, as in Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.json_schema.documents import WHAT, Location, SchemaDocuments
from kqueue.schema_registry.schemas.json_text import compact, sorted_members

COMBINED = ("allOf", "anyOf", "oneOf")
REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
KEYWORDS: Mapping[str, frozenset[str]] = {
    "array": frozenset(
        {"items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "prefixItems"}
        | {"unevaluatedItems", "minContains", "maxContains"}
    ),
    "object": frozenset(
        {"properties", "required", "minProperties", "maxProperties", "dependencies", "patternProperties"}
        | {"additionalProperties", "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"}
    ),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "conditional": frozenset({"if", "then", "else"}),
}
"""By kind: the keywords by which a schema without a type is of that kind."""
MODERN_KEYWORDS = frozenset(
    {"prefixItems", "unevaluatedItems", "minContains", "maxContains", "dependentRequired", "dependentSchemas"}
    | {"unevaluatedProperties"}
)
"""Keywords that drafts before 2019-09 do not have."""
_TYPES: Mapping[str, str] = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
    "array": "array", "object": "object",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class SchemaView:
    """A schema of one kind.

    Attributes:
        kind: empty, true, false, meta, string, number, boolean, null, array, object, conditional,
            enum, const, not, or one of `COMBINED`.
        location: where its keywords are.
        members: the schemas of a combined one.
        is_integer: of a number.
    """

    kind: str
    location: Location
    members: list[SchemaView] = field(default_factory=list)
    is_integer: bool = False
    _fingerprint: str | None = None

    @property
    def keywords(self) -> Mapping[str, Any]:
        """The keywords that count in its draft, and their values."""
        part = self.location.part
        if not isinstance(part, dict):
            return {}
        if self.location.draft.is_modern or MODERN_KEYWORDS.isdisjoint(part):
            return part
        return {name: value for name, value in part.items() if name not in MODERN_KEYWORDS}

    @property
    def is_combined(self) -> bool:
        """Whether it is one of `COMBINED`."""
        return self.kind in COMBINED

    @property
    def is_empty(self) -> bool:
        """Whether all values are valid."""
        return self.kind in ("empty", "true")

    def fingerprint(self) -> str:
        """Return a text that is the same for schemas that say the same in any order."""
        if self._fingerprint is None:
            self._fingerprint = f"{self.kind} {self.is_integer} {compact(sorted_members(self.location.part))}"
        return self._fingerprint


class SchemaViews:
    """The views of one schema's documents, each made once, when it is asked for."""

    def __init__(self, documents: SchemaDocuments) -> None:
        self._documents = documents
        self._views: dict[int, SchemaView] = {}
        self._booleans: dict[bool, SchemaView] = {}

    def root(self) -> SchemaView:
        """Return the view of the schema itself."""
        return self.of(self._documents.root)

    def child(self, view: SchemaView, part: Any) -> SchemaView:
        """Return the view of a schema that is the value of a keyword of another one."""
        return self.of(self._documents.below(view.location, part))

    def of(self, location: Location) -> SchemaView:
        """Return the view of a location, references followed."""
        part = location.part
        if not isinstance(part, dict):
            is_true = part is not False
            return self._booleans.setdefault(is_true, SchemaView("true" if is_true else "false", location))
        known = self._views.get(id(part))
        if known is None:
            target = self.followed(location)
            if target is None:
                known = SchemaView("meta", location)
            elif target.part is not part:
                known = self.of(target)
            else:
                known = SchemaView("empty", location)
                # It is entered before its members are made: they may lead back to it.
                self._views[id(part)] = known
                self._fill(known)
            self._views[id(part)] = known
        return known

    def followed(self, location: Location) -> Location | None:
        """Return what a schema that is only a reference means; itself: it is none; None: a
        meta-schema. Raises: InvalidSchema: references lead in a circle.
        """
        seen: set[int] = set()
        while isinstance(location.part, dict):
            reference = _only_reference(location)
            if reference is None:
                return location
            if id(location.part) in seen:
                raise InvalidSchema(f"{WHAT} has references that only lead to each other: {reference[:100]}")
            seen.add(id(location.part))
            target = self._documents.resolve(reference, location)
            if target is None:
                return None
            location = target
        return location

    def _fill(self, view: SchemaView) -> None:
        """Make an empty view what its keywords say."""
        members = self._members(view)
        if len(members) == 1:
            (one,) = members
            view.kind, view.members, view.is_integer = one.kind, one.members, one.is_integer
            view.location = one.location
        elif members:
            view.kind, view.members = "allOf", members

    def _members(self, view: SchemaView) -> list[SchemaView]:
        """Return one view for each kind that the keywords are of."""
        location, keywords = view.location, view.keywords
        members: list[SchemaView] = []
        for keyword in REFERENCE_KEYWORDS:
            if location.draft.is_modern and isinstance(keywords.get(keyword), str):
                target = self._documents.resolve(keywords[keyword], location)
                members.append(SchemaView("meta", location) if target is None else self.of(target))
        if "enum" in keywords:
            members.append(SchemaView("enum", location))
        for keyword in COMBINED:
            if isinstance(keywords.get(keyword), list):
                listed = [self.child(view, one) for one in keywords[keyword]]
                members.append(SchemaView(keyword, location, listed))
        members += [SchemaView(keyword, location) for keyword in ("not", "const") if keyword in keywords]
        types = keywords.get("type")
        if isinstance(types, str):
            members.append(_typed(types, location))
        elif isinstance(types, list):
            members.append(SchemaView("anyOf", location, [_typed(one, location) for one in types]))
        consumed = {_TYPES.get(one) for one in ([types] if isinstance(types, str) else types or [])}
        for kind, own in KEYWORDS.items():
            if kind not in consumed and not own.isdisjoint(keywords):
                members.append(SchemaView(kind, location))
        return members


def _typed(name: Any, location: Location) -> SchemaView:
    return SchemaView(_TYPES.get(name, "empty"), location, is_integer=name == "integer")


def _only_reference(location: Location) -> str | None:
    """Return the reference of a schema whose other keywords do not count; None: there is none."""
    part = location.part
    for keyword in REFERENCE_KEYWORDS:
        reference = part.get(keyword)
        if not isinstance(reference, str):
            continue
        if not location.draft.is_modern:
            return reference if keyword == "$ref" else None
        counting = {"enum", "not", "const", "type", *COMBINED, *REFERENCE_KEYWORDS} - {keyword}
        if counting.isdisjoint(part) and all(own.isdisjoint(part) for own in KEYWORDS.values()):
            return reference
    return None
