"""Structs and messages: classes whose attributes are `field(...)`s, over all versions at once.

    @struct
    class TopicPartition:
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    @message(api_key=0, versions="0-13", flexible="9+")
    class ProduceRequest:
        transactional_id: str | None = field(string, "3+", nullable="3+", default=None)
        acks: int = field(int16)

Such a class behaves as a dataclass with slots: keyword arguments only, every field has a default,
and objects compare by value. It does not use `dataclasses`, which take half a millisecond per class
at import; `__init__` is compiled at its first call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar, dataclass_transform, overload

from kqueue.schema.field_types import ArrayType, FieldType, StructType, field_type_of

T = TypeVar("T")
_UNSET: Any = object()

VERSION_MAX = 32767  # a version is an int16 on the wire


class Versions(NamedTuple):
    """The versions from `low` to `high`, both included; empty if `low` > `high`."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == VERSION_MAX:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NO_VERSIONS = Versions(1, 0)


@cache
def parse_versions(text: str) -> Versions:
    """Return the range of a text ``3+``, ``0-12``, ``8`` or ``none``.

    Raises:
        ValueError: the text has another form.
    """
    if text in ("", "none"):
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    low, dash, high = text.partition("-")
    versions = Versions(int(low), int(high) if dash else int(low))
    if versions.low > versions.high:
        raise ValueError(f"versions {text!r} run backwards")
    return versions


class Field:
    """One field of a struct, over all versions.

    Attributes:
        versions: versions that have the field. nullable: versions in which it can be None. tag: its
        number in the versions `tagged`, in which it is a tagged field; None: never tagged. default:
        its value if none is given or the version lacks the field; for arrays (), of which each
            object gets its own list.
        ignorable: a writer may drop its value at a version that lacks the field.
        compact: False for the one field that keeps the old length in flexible versions (the request
            header's client id).
        shortened: a writer omits the middle of a text that is too long for the field, such as an
            error message that repeats a name of the request. Else it raises.
    """

    __slots__ = (
        "compact",
        "default",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "shortened",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self, kind: FieldType[Any], versions: str, nullable: str, tag: int | None, tagged: str, default: Any
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.tagged = NO_VERSIONS if tag is None else parse_versions(tagged or versions)
        self.default = default
        self.ignorable = False
        self.compact = True
        self.shortened = False

    def __repr__(self) -> str:
        return f"<field {self.name}: {self.kind!r} {self.versions}>"


@overload
def field(
    kind: FieldType[T] | type[T],
    versions: str = ...,
    *,
    tag: int | None = ...,
    tagged: str = ...,
    default: T = ...,
    ignorable: bool = ...,
    compact: bool = ...,
) -> T:
    """Declare a field that is never None."""


@overload
def field(
    kind: FieldType[T] | type[T],
    versions: str = ...,
    *,
    nullable: str,
    tag: int | None = ...,
    tagged: str = ...,
    default: T | None = ...,
    ignorable: bool = ...,
    compact: bool = ...,
) -> T | None:
    """Declare a field that can be None."""


def field(
    kind: FieldType[Any] | type[Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "",
    default: Any = _UNSET,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    """Declare a field; the order of declarations is the order on the wire.

    The arguments are attributes of `Field`. Without `default` it is zero, empty, False, no
    elements, or a `default_instance` struct; None only for `record_data`."""
    of = field_type_of(kind)
    if default is _UNSET:
        default = of.schema.default_instance if isinstance(of, StructType) else of.zero
    new_field = Field(of, versions, nullable, tag, tagged, default)
    new_field.ignorable = ignorable
    new_field.compact = compact
    return new_field


def shortened(declared: T) -> T:
    """Return a field whose writer omits the middle of a text that is too long."""
    assert isinstance(declared, Field)
    declared.shortened = True
    return declared


class Schema:
    """Fields of a struct class in wire order, over all versions."""

    def __init__(self, cls: type[Any], fields: tuple[Field, ...]) -> None:
        self.name = cls.__name__
        self.cls = cls
        self.fields = fields

    def fields_at(self, version: int) -> list[Field]:
        """Return the untagged fields of this version, in wire order."""
        return [each for each in self.fields if version in each.versions and version not in each.tagged]

    def tagged_at(self, version: int) -> list[Field]:
        """Return the tagged fields of this version, in order of their tags."""
        tagged = [each for each in self.fields if version in each.versions and version in each.tagged]
        return sorted(tagged, key=lambda each: each.tag or 0)

    def absent_at(self, version: int) -> list[Field]:
        """Return the fields that this version lacks."""
        return [each for each in self.fields if version not in each.versions]

    @cached_property
    def default_instance(self) -> Any:
        """The shared immutable object that a field of this struct has by default."""
        body = {
            "__slots__": (),
            "__setattr__": _refuse_change,
            "__reduce__": _reduce_default_instance,
            "__schema__": self,
        }
        frozen = type(self.name, (self.cls,), body)
        instance: Any = object.__new__(frozen)
        for each in self.fields:
            object.__setattr__(
                instance, each.name, [] if isinstance(each.kind, ArrayType) and each.default == () else each.default
            )
        return instance


class MessageSchema(Schema):
    """Schema of a struct that is sent or stored on its own.

    Attributes:
        api_key: None for a message that is neither request nor response.
        versions: all versions of the message.
        flexible: versions with compact lengths and tagged fields.
        unstable: the last version is not final and must not be advertised.
    """

    api_key: int | None
    versions: Versions
    flexible: Versions
    unstable: bool


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Make a struct of a class whose attributes are fields; its versions are the message's."""
    return _build(cls, Schema)[0]


@dataclass_transform(kw_only_default=True)
def message(
    *, versions: str, flexible: str = "none", api_key: int | None = None, unstable: bool = False
) -> Callable[[type[T]], type[T]]:
    """Make a message of a class whose attributes are fields.

    Args:
        versions: all versions of the message.
        flexible: versions with compact lengths and tagged fields.
        api_key: None for a message that is neither request nor response.
        unstable: the last version is not final and must not be advertised.
    """

    def decorate(cls: type[T]) -> type[T]:
        message_class, schema = _build(cls, MessageSchema)
        schema.api_key = api_key
        schema.versions = parse_versions(versions)
        schema.flexible = parse_versions(flexible)
        schema.unstable = unstable
        return message_class

    return decorate


S = TypeVar("S", bound=Schema)


def _build(cls: type[T], schema_class: type[S]) -> tuple[type[T], S]:
    fields: list[Field] = []
    body: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if isinstance(value, Field):
            value.name = name
            fields.append(value)
        elif name not in ("__dict__", "__weakref__"):
            body[name] = value
    body["__slots__"] = tuple(each.name for each in fields)
    for method in (_first_init, _repr, _eq):
        body.setdefault(f"__{method.__name__.split('_')[-1]}__", method)
    body["__hash__"] = None
    struct_class: Any = type(cls.__name__, cls.__bases__, body)
    struct_class.__schema__ = schema = schema_class(struct_class, tuple(fields))
    return struct_class, schema


def schema_of(cls: type[Any]) -> Schema:
    """Return the schema of a struct class.

    Raises:
        TypeError: `cls` is not a struct class.
    """
    schema = getattr(cls, "__schema__", None)
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls!r} is no struct: it lacks @struct or @message")
    return schema


def message_schema_of(cls: type[Any]) -> MessageSchema:
    """Return the schema of a message class.

    Raises:
        TypeError: `cls` is not a message class.
    """
    schema = schema_of(cls)
    if not isinstance(schema, MessageSchema):
        raise TypeError(f"{cls!r} is a part of messages, not a message: it lacks @message")
    return schema


# --- methods of all struct classes


def _first_init(self: Any, **values: Any) -> None:
    schema = schema_of(type(self))
    schema.cls.__init__ = init = _compile_init(schema)
    init(self, **values)


def _compile_init(schema: Schema) -> Callable[..., None]:
    names: dict[str, Any] = {"NEW": _UNSET}
    head, body = ["self"], []
    for each in schema.fields:
        if isinstance(each.kind, ArrayType) and each.default == ():
            head.append(f"{each.name}=NEW")
            body.append(f"self.{each.name} = [] if {each.name} is NEW else {each.name}")
        else:
            names[f"D_{each.name}"] = each.default
            head.append(f"{each.name}=D_{each.name}")
            body.append(f"self.{each.name} = {each.name}")
    if len(head) > 1:
        head.insert(1, "*")
    source = f"def __init__({', '.join(head)}):\n    " + "\n    ".join(body or ["pass"])
    exec(compile(source, f"<{schema.name}.__init__>", "exec"), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{schema.name}.__init__"
    return init


def _repr(self: Any) -> str:
    schema = schema_of(type(self))
    return f"{schema.name}({', '.join(f'{each.name}={getattr(self, each.name)!r}' for each in schema.fields)})"


def _eq(self: Any, other: object) -> bool:
    schema = schema_of(type(self))
    if getattr(other, "__schema__", None) is not schema:
        return False
    return all(getattr(self, each.name) == getattr(other, each.name) for each in schema.fields)


def _refuse_change(self: Any, name: str, value: object) -> None:
    raise AttributeError(
        f"{self!r} is the default that all share: give its owner a new {schema_of(type(self)).name} instead"
    )


def _reduce_default_instance(self: Any) -> tuple[Any, ...]:
    return _default_instance_of, (schema_of(type(self)).cls,)


def _default_instance_of(cls: type[Any]) -> Any:
    return schema_of(cls).default_instance
