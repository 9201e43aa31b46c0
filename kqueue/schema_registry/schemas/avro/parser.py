"""JSON of an Avro schema as a graph of types.

Source: the Avro specification 1.12, "Schema Declaration" and "Names".
"""

from __future__ import annotations

import re
from typing import Any

from kqueue.base.text import short_repr
from kqueue.schema_registry.schemas.avro.model import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroName,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    NamedAvroType,
)
from kqueue.schema_registry.schemas.contract import InvalidSchema

FIXED_BYTES_MAX = 2**31 - 1
ORDERS = ("ascending", "descending", "ignore")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"type", "name", "namespace", "doc", "aliases", "fields", "items", "values", "size", "symbols"})
_ENUM_RESERVED = _RESERVED | {"default"}
_FIELD_RESERVED = frozenset({"type", "name", "doc", "default", "order", "aliases"})


class AvroParser:
    """Parses documents that share their names, references first.

    Attributes: names: the named types so far, by full name.
    """

    def __init__(self) -> None:
        self.names: dict[str, NamedAvroType] = {}

    def parse(self, document: Any, namespace: str = "") -> AvroType:
        """Return the type of a document. `namespace`: that around it. Raises: InvalidSchema."""
        if isinstance(document, str):
            return self._by_name(document, namespace)
        if isinstance(document, list):
            return self._union(document, namespace)
        if not isinstance(document, dict):
            raise InvalidSchema(f"An Avro type is a name, an object or a list, not {short_repr(document)}")
        kind = document.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f'An Avro type needs "type" with a name: {short_repr(document)}')
        if kind in PRIMITIVES:
            return AvroPrimitive(kind, _properties(document, _RESERVED))
        if kind in ("record", "error"):
            return self._record(document, namespace, is_error=kind == "error")
        if kind == "enum":
            return self._enum(document, namespace)
        if kind == "fixed":
            return self._fixed(document, namespace)
        if kind == "array":
            items = self.parse(_required(document, "items", "An array"), namespace)
            return AvroArray(items, _properties(document, _RESERVED))
        if kind == "map":
            values = self.parse(_required(document, "values", "A map"), namespace)
            return AvroMap(values, _properties(document, _RESERVED))
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroPrimitive(name, {})
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise InvalidSchema(f"There is no type {short_repr(full)}: it is neither defined before, nor referred to")
        return found

    def _union(self, document: list[Any], namespace: str) -> AvroUnion:
        branches = tuple(self.parse(one, namespace) for one in document)
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, AvroUnion):
                raise InvalidSchema("A union is directly in a union")
            key = branch.name.full if isinstance(branch, NamedAvroType) else branch.kind
            if key in seen:
                raise InvalidSchema(f"A union has {short_repr(key)} twice")
            seen.add(key)
        return AvroUnion(branches)

    def _record(self, document: dict[str, Any], namespace: str, *, is_error: bool) -> AvroRecord:
        name = self._name(document, namespace)
        record = AvroRecord(name, _doc(document), _properties(document, _RESERVED), is_error)
        self.names[name.full] = record
        fields = _required(document, "fields", f"The record {name.full}")
        if not isinstance(fields, list):
            raise InvalidSchema(f"The fields of the record {name.full} are no list")
        seen: set[str] = set()
        for one in fields:
            field = self._field(one, name)
            if field.name in seen:
                raise InvalidSchema(f"The record {name.full} has two fields {field.name}")
            seen.add(field.name)
            record.fields.append(field)
        return record

    def _field(self, document: Any, record: AvroName) -> AvroField:
        what = f"A field of the record {record.full}"
        if not isinstance(document, dict):
            raise InvalidSchema(f"{what} is no object: {short_repr(document)}")
        name = _checked_name(_required(document, "name", what), what)
        what = f"The field {name} of the record {record.full}"
        order = document.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            raise InvalidSchema(f"{what} has the order {short_repr(order)}: expected one of {', '.join(ORDERS)}")
        return AvroField(
            name,
            self.parse(_required(document, "type", what), record.namespace),
            _doc(document),
            document.get("default", NO_DEFAULT),
            order.lower(),
            tuple(_aliases(document, what)),
            _properties(document, _FIELD_RESERVED),
        )

    def _enum(self, document: dict[str, Any], namespace: str) -> AvroEnum:
        name = self._name(document, namespace)
        symbols = _required(document, "symbols", f"The enum {name.full}")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"The symbols of the enum {name.full} are no list")
        checked = tuple(_checked_name(one, f"A symbol of the enum {name.full}") for one in symbols)
        if len(set(checked)) != len(checked):
            raise InvalidSchema(f"The enum {name.full} has a symbol twice")
        default = document.get("default")
        if default is not None and default not in checked:
            raise InvalidSchema(f"The default {short_repr(default)} of the enum {name.full} is none of its symbols")
        enum = AvroEnum(name, _doc(document), checked, default, _properties(document, _ENUM_RESERVED))
        self.names[name.full] = enum
        return enum

    def _fixed(self, document: dict[str, Any], namespace: str) -> AvroFixed:
        name = self._name(document, namespace)
        size = _required(document, "size", f"The fixed {name.full}")
        if type(size) is not int or not 0 <= size <= FIXED_BYTES_MAX:
            raise InvalidSchema(f"The size of the fixed {name.full} is {short_repr(size)}: expected a number of bytes")
        fixed = AvroFixed(name, _doc(document), size, _properties(document, _RESERVED))
        self.names[name.full] = fixed
        return fixed

    def _name(self, document: dict[str, Any], namespace: str) -> AvroName:
        given = _required(document, "name", f"The {document['type']}")
        if not isinstance(given, str):
            raise InvalidSchema(f"A name is text, not {short_repr(given)}")
        own = document.get("namespace", namespace)
        if not isinstance(own, str):
            raise InvalidSchema(f"The namespace of {given} is no text: {short_repr(own)}")
        before, _, simple = given.rpartition(".")
        own = before or own
        _checked_name(simple, f"The {document['type']}")
        full = f"{own}.{simple}" if own else simple
        if full in PRIMITIVES:
            raise InvalidSchema(f"A type is named {full}, which is that of a primitive type")
        if full in self.names:
            raise InvalidSchema(f"The type {full} is defined twice")
        aliases = _aliases(document, f"The type {full}")
        return AvroName(full, tuple(one if "." in one or not own else f"{own}.{one}" for one in aliases))


def _required(document: dict[str, Any], key: str, what: str) -> Any:
    if key not in document:
        raise InvalidSchema(f'{what} needs "{key}"')
    return document[key]


def _checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchema(f"{what} is named {short_repr(name)}: expected letters, digits and _, no digit first")
    return name


def _doc(document: dict[str, Any]) -> str | None:
    doc = document.get("doc")
    return doc if isinstance(doc, str) else None


def _aliases(document: dict[str, Any], what: str) -> list[str]:
    aliases = document.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(one, str) for one in aliases):
        raise InvalidSchema(f"{what} has aliases that are no list of names")
    return list(dict.fromkeys(aliases))


def _properties(document: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in reserved}
