"""A .proto file as data: its declarations, without comments, and names of types as written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FIELD_NUMBER_MAX = 2**29 - 1
ENUM_NUMBER_MAX = 2**31 - 1
SCALARS = frozenset({
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
})  # fmt: skip
"""The types that are no names of messages or enums."""
Label = Literal["", "optional", "required", "repeated"]


@dataclass(frozen=True, slots=True)
class ProtoConstant:
    """A value. `kind`: whether `text` is text, a number, or a name, such as true or an enum's."""

    kind: Literal["string", "number", "name"]
    text: str


@dataclass(frozen=True, slots=True)
class ProtoAggregate:
    """A message as a value: its fields by name, or by extension in brackets, in their order."""

    fields: tuple[tuple[str, ProtoValue], ...]


ProtoValue = ProtoConstant | ProtoAggregate | tuple["ProtoValue", ...]


@dataclass(frozen=True, slots=True)
class ProtoOption:
    """An option. `name`: as written: ``deprecated``, ``(custom).field``."""

    name: str
    value: ProtoValue

    @property
    def is_custom(self) -> bool:
        """Whether an extension of the options defines it."""
        return self.name.startswith("(")


Options = tuple[ProtoOption, ...]


@dataclass(frozen=True, slots=True)
class ProtoRanges:
    """Numbers and names of a ``reserved`` or ``extensions`` statement. Ranges include both ends."""

    ranges: tuple[tuple[int, int], ...]
    names: tuple[str, ...] = ()
    options: Options = ()


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field. `type`: a scalar, a name, or ``map<key, value>``; empty label: none is written."""

    name: str
    number: int
    type: str
    label: Label = ""
    options: Options = ()

    @property
    def map_types(self) -> tuple[str, str] | None:
        """The types of keys and values of a map; None: it is none."""
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[4:-1].partition(",")
        return key.strip(), value.strip()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoGroup:
    """A group of proto2: a field and its message in one. `message`: its name is the group's."""

    number: int
    message: ProtoMessage
    label: Label = ""
    options: Options = ()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoOneof:
    """Fields of which one at most has a value."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    groups: tuple[ProtoGroup, ...] = ()
    options: Options = ()

    @property
    def members(self) -> tuple[ProtoField | ProtoGroup, ...]:
        """Fields and groups."""
        return (*self.fields, *self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class ProtoExtend:
    """Fields that are added to another message."""

    target: str
    fields: tuple[ProtoField, ...] = ()
    groups: tuple[ProtoGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtoEnumValue:
    """A value of an enum."""

    name: str
    number: int
    options: Options = ()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoEnum:
    """An enum."""

    name: str
    values: tuple[ProtoEnumValue, ...] = ()
    reserved: tuple[ProtoRanges, ...] = ()
    options: Options = ()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoMessage:
    """A message, and the types that are declared in it."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    oneofs: tuple[ProtoOneof, ...] = ()
    groups: tuple[ProtoGroup, ...] = ()
    messages: tuple[ProtoMessage, ...] = ()
    enums: tuple[ProtoEnum, ...] = ()
    reserved: tuple[ProtoRanges, ...] = ()
    extensions: tuple[ProtoRanges, ...] = ()
    extends: tuple[ProtoExtend, ...] = ()
    options: Options = ()

    @property
    def members(self) -> tuple[ProtoField | ProtoGroup, ...]:
        """Fields and groups that are in no oneof."""
        return (*self.fields, *self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class ProtoRpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: Options = ()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoService:
    """A service."""

    name: str
    rpcs: tuple[ProtoRpc, ...] = ()
    options: Options = ()


@dataclass(frozen=True, slots=True, eq=False)
class ProtoFile:
    """A file.

    Attributes:
        syntax: ``proto2``, ``proto3``, or the name of an edition; empty: none is written (proto2).
        package: empty: none.
        imports, public_imports: paths.
    """

    syntax: str = ""
    package: str = ""
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    options: Options = ()
    messages: tuple[ProtoMessage, ...] = ()
    enums: tuple[ProtoEnum, ...] = ()
    extends: tuple[ProtoExtend, ...] = ()
    services: tuple[ProtoService, ...] = ()

    @property
    def is_edition(self) -> bool:
        """Whether the file is of an edition."""
        return self.syntax[:1].isdecimal()
