"""The types of an Avro schema, names resolved: a graph, in which a record may be in itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NO_DEFAULT: Final = object()
"""The default of a field that has none; None is the default null."""
Properties = Mapping[str, Any]
"""Attributes of a type or field that the specification does not reserve, logical types included."""


@dataclass(frozen=True, slots=True, eq=False)
class AvroPrimitive:
    """A type without parts. `kind`: one of `PRIMITIVES`."""

    kind: str
    properties: Properties


@dataclass(frozen=True, slots=True, eq=False)
class AvroArray:
    """Any number of values of one type."""

    items: AvroType
    properties: Properties
    kind: str = "array"


@dataclass(frozen=True, slots=True, eq=False)
class AvroMap:
    """Any number of values of one type, by names."""

    values: AvroType
    properties: Properties
    kind: str = "map"


@dataclass(frozen=True, slots=True, eq=False)
class AvroUnion:
    """One of several types; a union is never in a union."""

    branches: tuple[AvroType, ...]
    kind: str = "union"


@dataclass(frozen=True, slots=True, eq=False)
class AvroName:
    """A type's full name, and others by which it can read. `aliases`: full names."""

    full: str
    aliases: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """What is before the last dot; empty: nothing."""
        return self.full.rpartition(".")[0]

    @property
    def simple(self) -> str:
        """What is after the last dot."""
        return self.full.rpartition(".")[2]


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record.

    `default`: JSON, or `NO_DEFAULT`; `order`: ascending, descending or ignore.
    """

    name: str
    type: AvroType
    doc: str | None
    default: Any
    order: str
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(slots=True, eq=False)
class AvroRecord:
    """A record. `fields` are added after it was made, as they may have the record as their type."""

    name: AvroName
    doc: str | None
    properties: Properties
    is_error: bool
    fields: list[AvroField] = field(default_factory=list)
    kind: str = "record"


@dataclass(frozen=True, slots=True, eq=False)
class AvroEnum:
    """An enum. `default`: the symbol that stands for those a reader does not know; None: none."""

    name: AvroName
    doc: str | None
    symbols: tuple[str, ...]
    default: str | None
    properties: Properties
    kind: str = "enum"


@dataclass(frozen=True, slots=True, eq=False)
class AvroFixed:
    """Bytes of a fixed size."""

    name: AvroName
    doc: str | None
    size: int
    properties: Properties
    kind: str = "fixed"


NamedAvroType = AvroRecord | AvroEnum | AvroFixed
AvroType = AvroPrimitive | AvroArray | AvroMap | AvroUnion | NamedAvroType
