"""Protobuf: messages as columns, decoded by Google's package.

Source: the Protobuf language guide. A message is read by the numbers of its fields, whatever schema
it was written with. Types of columns as those of Spark's `from_protobuf`, but enums are names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.columns import TIMESTAMP, Nesting, columns_of, list_of, map_of
from kqueue.spark.value_formats.contract import Decoded, SchemaText, shortened
from kqueue.spark.value_formats.protobuf_files import WHAT, indexed_message, messages_of, serialized

Convert = Callable[[Any], Any]
UINT64 = pa.decimal128(20, 0)
PRIMITIVES: Mapping[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}
WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
JSON = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
"""Messages that are JSON, and recursive."""
SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799  # of Timestamp: the years 1 to 9999


class ProtobufFormat:
    """A reader's message.

    Args: name: its full name; None: the first of the file. Attributes: `name`: its full name.
    Raises: SchemaRefused: there is no such message, or it has no columns.
    """

    def __init__(self, schema: SchemaText, name: str | None) -> None:
        file, pool = messages_of(serialized(schema))
        if name is None:
            if not file.message_types_by_name:
                raise SchemaRefused(f"{WHAT} has no message")
            descriptor = next(iter(file.message_types_by_name.values()))
        else:
            try:
                descriptor = pool.FindMessageTypeByName(name)
            except KeyError:
                known = ", ".join(one.full_name for one in file.message_types_by_name.values())
                raise SchemaRefused(f"{WHAT} has no message {name!r}; there are {shortened(known)}") from None
        self.name = str(descriptor.full_name)
        self.type, self.convert = _Messages().of(descriptor)
        if not pa.types.is_struct(self.type):
            raise SchemaRefused(f"{WHAT}: {self.name} has no fields")
        self.message = message_factory.GetMessageClass(descriptor)

    def decoder(self, writer: SchemaText | None, indexes: tuple[int, ...] = ()) -> ProtobufDecoder:
        """Return a decoder. Raises: SchemaRefused: the writer's is another message."""
        if writer is not None:
            written = _indexed(writer, indexes)
            if written != self.name:
                raise SchemaRefused(f"it is a {shortened(written)}, expected {self.name}")
        return ProtobufDecoder(self)


class ProtobufDecoder:
    """Decodes messages."""

    def __init__(self, reader: ProtobufFormat) -> None:
        self._reader = reader

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        rows: list[Any] = []
        errors: dict[int, str] = {}
        read, convert = self._reader.message.FromString, self._reader.convert
        for value in values:
            try:
                message = read(value)
                if not message.IsInitialized():
                    raise ValueError(f"missing: {', '.join(message.FindInitializationErrors())}")
                rows.append(convert(message))
            except Exception as error:  # whatever the bytes make Protobuf raise
                errors[len(rows)] = f"not a {self._reader.name}: {shortened(error) or type(error).__name__}"
                rows.append(None)
        return columns_of(rows, self._reader.type, errors)


def _indexed(writer: SchemaText, indexes: tuple[int, ...]) -> str:
    """Return the full name of the message that the indexes of a frame lead to."""
    return str(indexed_message(writer, indexes).full_name)


class _Messages:
    """Arrow types of messages, and what makes rows of them."""

    def __init__(self) -> None:
        self._nesting = Nesting(WHAT)

    def of(self, descriptor: Any) -> tuple[pa.DataType, Convert]:
        """Return both of a message."""
        if descriptor.full_name == "google.protobuf.Timestamp":
            return TIMESTAMP, _moment
        if descriptor.full_name in WRAPPERS:
            return PRIMITIVES[descriptor.fields_by_name["value"].type], operator.attrgetter("value")
        if descriptor.full_name in JSON:
            return pa.string(), _json
        if not descriptor.fields:
            return pa.bool_(), lambda _: True
        self._nesting.enter(descriptor.full_name)
        self._nesting.count([field.name for field in descriptor.fields], descriptor.full_name)
        fields = [(field.name, *self._field(field)) for field in descriptor.fields]
        self._nesting.leave()
        readers = [(name, reader) for name, _, reader in fields]

        def convert(message: Any) -> dict[str, Any]:
            return {name: read(message) for name, read in readers}

        return pa.struct([pa.field(name, kind) for name, kind, _ in fields]), convert

    def _field(self, field: Any) -> tuple[pa.DataType, Convert]:
        """Return the type of a field, and what reads it from its message."""
        get = operator.attrgetter(field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            key_type, _ = self._single(key)
            item, convert = self._single(value)
            if convert is None:
                return map_of(item, key_type), lambda message: list(get(message).items())
            return map_of(item, key_type), lambda message: [(name, convert(one)) for name, one in get(message).items()]
        kind, convert = self._single(field)
        if field.is_repeated:
            if convert is None:
                return list_of(kind), lambda message: list(get(message))
            return list_of(kind), lambda message: [convert(one) for one in get(message)]
        name = field.name
        if not field.has_presence:
            return kind, get if convert is None else lambda message: convert(get(message))
        if convert is None:
            return kind, lambda message: get(message) if message.HasField(name) else None
        return kind, lambda message: convert(get(message)) if message.HasField(name) else None

    def _single(self, field: Any) -> tuple[pa.DataType, Convert | None]:
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return pa.string(), lambda number: names.get(number) or str(number)
        return PRIMITIVES[field.type], None


def _moment(message: Any) -> int:
    """Return µs since 1970, which Arrow takes; finer parts are cut off."""
    if not SECONDS_MIN <= message.seconds <= SECONDS_MAX or not 0 <= message.nanos < 1_000_000_000:
        raise ValueError(f"a Timestamp of {message.seconds} s and {message.nanos} ns is none of the years 1 to 9999")
    return int(message.seconds * 1_000_000 + message.nanos // 1_000)


def _json(message: Any) -> str:
    return str(json_format.MessageToJson(message, indent=None, ensure_ascii=False))
