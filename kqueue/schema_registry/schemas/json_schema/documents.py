"""The documents of a JSON Schema: its own and those that it refers to, and what each URI means.

Source: JSON Schema 2020-12, "Base URI, Anchors, and Dereferencing"; earlier drafts alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from kqueue.base.text import short_repr
from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.json_schema.drafts import DRAFTS, Draft, draft_of

WHAT = "The JSON schema"
_VALUES = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are no schemas, whatever they look like."""
_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"}
)
"""Keywords of objects whose names are any, and whose values are schemas."""


class Location(NamedTuple):
    """A part of a document.

    `base`: the URI that its references are relative to; `draft`: that of the document.
    """

    part: Any
    base: str
    draft: Draft


class SchemaDocuments:
    """Finds the parts that references mean.

    Args: root: the schema's document. references: others, by the names that it uses.
    """

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self.draft = draft_of(root)
        self._resources: dict[str, Location] = {}
        self._anchors: dict[tuple[str, str], Location] = {}
        self._bases: dict[int, str] = {}
        self.root = self._add(root, "")
        self._references = {name: self._add(document, name) for name, document in references.items()}

    def below(self, location: Location, part: Any) -> Location:
        """Return the location of a part that is directly below another."""
        return Location(part, self._bases.get(id(part), location.base), location.draft)

    def resolve(self, reference: str, within: Location) -> Location | None:
        """Return what a reference means; None: the meta-schema of a draft.

        Raises: InvalidSchema: there is no such part.
        """
        name, _, fragment = reference.partition("#")
        try:
            uri = urljoin(within.base, name) if name else within.base
        except ValueError:  # no URL
            uri = name
        resource = self._resource(name, uri)
        if resource is None:
            if uri.removesuffix("#") in DRAFTS:
                return None
            raise InvalidSchema(f"{WHAT} refers to {short_repr(reference)}, which is not among its references")
        found = self._fragment(resource, uri if name else within.base, unquote(fragment))
        if found is None:
            raise InvalidSchema(f"{WHAT} refers to {short_repr(reference)}, where there is nothing")
        return found

    def parts(self) -> Iterator[Location]:
        """Yield all objects of the own document that can be schemas, the document first."""
        left = [self.root]
        while left:
            location = left.pop()
            if isinstance(location.part, dict):
                yield location
            left += [self.below(location, one) for one in _parts_below(location.part)]

    def _resource(self, name: str, uri: str) -> Location | None:
        if uri in self._resources:
            return self._resources[uri]
        known = [one for one in (name, uri, name.removeprefix("./")) if one in self._references]
        known += [one for one in self._references if not known and one and uri.endswith(f"/{one}")]
        if not known:
            return None
        self._resources[uri] = self._references[known[0]]
        return self._resources[uri]

    def _fragment(self, resource: Location, uri: str, fragment: str) -> Location | None:
        if not fragment:
            return resource
        if fragment.startswith("/"):
            return self._at(resource, fragment)
        return self._anchors.get((resource.base, fragment)) or self._anchors.get((uri, fragment))

    def _at(self, resource: Location, pointer: str) -> Location | None:
        """Return what a JSON pointer leads to; None: nothing."""
        location = resource
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            part = location.part
            if isinstance(part, dict) and key in part:
                location = self.below(location, part[key])
            elif isinstance(part, list) and key.isdecimal() and int(key[:9]) < len(part):
                location = self.below(location, part[int(key[:9])])
            else:
                return None
        return location

    def _add(self, document: Any, name: str) -> Location:
        """Enter a document's identifiers and anchors. `name`: its URI if it gives itself none."""
        draft = draft_of(document) if isinstance(document, dict) and "$schema" in document else self.draft
        root = Location(document, name, draft)
        left = [root]
        while left:
            location = left.pop()
            if isinstance(location.part, dict):
                location = self._identified(location.part, location)
            if location.part is document:
                root = location
                self._resources.setdefault(root.base, root)
            left += [location._replace(part=one) for one in _parts_below(location.part)]
        return root

    def _identified(self, part: dict[str, Any], location: Location) -> Location:
        given = part.get(location.draft.id_keyword)
        if isinstance(given, str):
            uri, _, anchor = given.partition("#")
            try:
                base = urljoin(location.base, uri) if uri else location.base
            except ValueError:  # no URL
                base = uri
            location = location._replace(base=base)
            if uri:
                self._resources.setdefault(base, location)
            if anchor:
                self._anchors.setdefault((base, anchor), location)
        self._bases[id(part)] = location.base
        for keyword in ("$anchor", "$dynamicAnchor"):
            own = part.get(keyword)
            if isinstance(own, str):
                self._anchors.setdefault((location.base, own), location)
        return location


def _parts_below(part: Any) -> Iterator[Any]:
    """Yield the parts directly below a schema that can be schemas."""
    if isinstance(part, list):
        yield from part
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in _SCHEMAS_BY_NAME and isinstance(value, dict):
                yield from value.values()
            elif key not in _VALUES:
                yield value
