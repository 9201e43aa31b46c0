"""The types of fields, on the wire and in Python.

A `FieldType[T]` says which Python type the field has, so that `name: str = field(string)` is
checked by type checkers. Layouts (all numbers big-endian):

    boolean, int8 … int64, uint16, float64   1, 1 … 8, 2, 8 bytes
    uuid                                     16 bytes, kept as `bytes`
    string, bytes_, record_data              length, then that many bytes; null is length -1
    array(of)                                count, then that many elements; null is count -1
    a struct                                 its fields; nullable: first an int8, 1 or -1 (null; 0
                                             in a tagged field)

Lengths are int16 (string) or int32 (all others). In flexible versions they are an unsigned varint
of length + 1, null being 0, and each struct ends with its tagged fields. Source: Kafka protocol
guide, KIP-482, KIP-893.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class FileRegionLike(Sized, Protocol):
    """Bytes of a file (`kqueue.storage.Region`), which a writer passes on for sendfile."""

    is_region: bool

    def read(self) -> bytes:
        """Return the bytes."""
        ...


Chunk = bytes | bytearray | memoryview | FileRegionLike
"""One piece of an encoded message."""


class FieldType(Generic[T_co]):
    """Type of a field; `zero` is its default if the schema declares none."""

    __slots__ = ("name", "zero")

    def __init__(self, name: str, zero: Any) -> None:
        self.name = name
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


class FixedSizeType(FieldType[T_co]):
    """A value of `size` bytes; `code` is its letter in a `struct` format."""

    __slots__ = ("code", "size")

    def __init__(self, name: str, zero: Any, code: str, size: int) -> None:
        super().__init__(name, zero)
        self.code = code
        self.size = size


class LengthPrefixedType(FieldType[T_co]):
    """A length, then that many bytes: string, bytes or records."""

    __slots__ = ()


class ArrayType(FieldType[T_co]):
    """A count, then that many elements."""

    __slots__ = ("of",)

    def __init__(self, of: FieldType[Any]) -> None:
        super().__init__(f"array({of!r})", ())
        self.of = of


class StructType(FieldType[T_co]):
    """A struct; `schema` is its `structs.Schema`."""

    __slots__ = ("schema",)

    def __init__(self, schema: Any) -> None:
        super().__init__(schema.name, None)
        self.schema = schema


boolean: FieldType[bool] = FixedSizeType("boolean", False, "?", 1)
int8: FieldType[int] = FixedSizeType("int8", 0, "b", 1)
int16: FieldType[int] = FixedSizeType("int16", 0, "h", 2)
int32: FieldType[int] = FixedSizeType("int32", 0, "i", 4)
int64: FieldType[int] = FixedSizeType("int64", 0, "q", 8)
uint16: FieldType[int] = FixedSizeType("uint16", 0, "H", 2)
float64: FieldType[float] = FixedSizeType("float64", 0.0, "d", 8)
uuid: FieldType[bytes] = FixedSizeType("uuid", bytes(16), "16s", 16)
string: FieldType[str] = LengthPrefixedType("string", "")
bytes_: FieldType[bytes] = LengthPrefixedType("bytes_", b"")
record_data: FieldType[Any] = LengthPrefixedType("record_data", None)
"""Opaque record batches: read as a memoryview of the frame, written from any `Chunk`."""


def array(of: FieldType[T] | type[T]) -> FieldType[list[T]]:
    """Return the type of a list of `of`, a field type or a struct class."""
    return ArrayType(field_type_of(of))


def field_type_of(of: FieldType[Any] | type[Any]) -> FieldType[Any]:
    """Return `of`, or the field type of a struct class."""
    if isinstance(of, FieldType):
        return of
    return StructType(of.__schema__)
