"""An Avro schema as JSON: the order of attributes is Apache Avro's, which is what registries store.

Each named type is written out where it is first met, and by its name after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kqueue.schema_registry.schemas.avro.model import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroMap,
    AvroName,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Properties,
)
from kqueue.schema_registry.schemas.json_text import sorted_members


class AvroPrinter:
    """Writes one schema.

    Args:
        known: full names that are written as names: those of references.
        is_normal: attributes and aliases are sorted, and empty documentation is left out.
    """

    def __init__(self, known: Iterable[str] = (), *, is_normal: bool = False) -> None:
        self._written = set(known)
        self._is_normal = is_normal

    def document(self, type: AvroType, namespace: str = "") -> Any:
        """Return the JSON of a type. `namespace`: that around it."""
        if isinstance(type, AvroPrimitive):
            return {"type": type.kind, **self._properties(type.properties)} if type.properties else type.kind
        if isinstance(type, AvroUnion):
            return [self.document(one, namespace) for one in type.branches]
        if isinstance(type, AvroArray):
            items = self.document(type.items, namespace)
            return {"type": "array", "items": items, **self._properties(type.properties)}
        if isinstance(type, AvroMap):
            values = self.document(type.values, namespace)
            return {"type": "map", "values": values, **self._properties(type.properties)}
        name = type.name
        if name.full in self._written:
            return _reference(name, namespace)
        self._written.add(name.full)
        document: dict[str, Any] = {"type": type.kind, "name": name.simple}
        if name.namespace != namespace:
            document["namespace"] = name.namespace
        if type.doc or (type.doc is not None and not self._is_normal):
            document["doc"] = type.doc
        if isinstance(type, AvroRecord):
            document["type"] = "error" if type.is_error else "record"
            document["fields"] = [self._field(one, name.namespace) for one in type.fields]
        elif isinstance(type, AvroEnum):
            document["symbols"] = list(type.symbols)
            if type.default is not None:
                document["default"] = type.default
        else:
            document["size"] = type.size
        document |= self._properties(type.properties)
        if name.aliases:
            relative = [_relative(one, name.namespace) for one in self._sorted(name.aliases)]
            document["aliases"] = relative
        return document

    def _field(self, field: AvroField, namespace: str) -> dict[str, Any]:
        document: dict[str, Any] = {"name": field.name, "type": self.document(field.type, namespace)}
        if field.doc is not None:
            document["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            document["default"] = sorted_members(field.default) if self._is_normal else field.default
        if field.order != "ascending":
            document["order"] = field.order
        if field.aliases:
            document["aliases"] = self._sorted(field.aliases)
        return document | self._properties(field.properties)

    def _sorted(self, names: tuple[str, ...]) -> list[str]:
        return sorted(names) if self._is_normal else list(names)

    def _properties(self, properties: Properties) -> dict[str, Any]:
        if not self._is_normal:
            return dict(properties)
        first = [name for name in ("logicalType", "precision", "scale") if name in properties]
        return {name: sorted_members(properties[name]) for name in dict.fromkeys([*first, *sorted(properties)])}


def _reference(name: AvroName, namespace: str) -> str:
    return name.simple if name.namespace == namespace and name.simple not in PRIMITIVES else name.full


def _relative(full: str, namespace: str) -> str:
    before, _, simple = full.rpartition(".")
    return simple if before == namespace else full
