"""Google's descriptors of a file: made of its model, without custom options.

Source: `google/protobuf/descriptor.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, text_format

from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.protobuf.model import (
    Options,
    ProtoAggregate,
    ProtoConstant,
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
    ProtoRanges,
    ProtoService,
    ProtoValue,
)
from kqueue.schema_registry.schemas.protobuf.symbols import SymbolTable
from kqueue.schema_registry.schemas.protobuf.tokens import WHAT, escaped

_Field = descriptor_pb2.FieldDescriptorProto
SCALAR_TYPES: Mapping[str, int] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
LABELS: Mapping[str, int] = {
    "": _Field.LABEL_OPTIONAL,
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
EDITIONS: Mapping[str, int] = {"2023": descriptor_pb2.EDITION_2023, "2024": descriptor_pb2.EDITION_2024}
_SPECIAL = ("default", "json_name")


def file_descriptor(file: ProtoFile, path: str, symbols: SymbolTable) -> Any:
    """Return the descriptor of a file, a `FileDescriptorProto`.

    Args: path: by which others import it. symbols: of the file and its imports.
    Raises: InvalidSchema: a type or an option is not known.
    """
    return _Builder(file, symbols).file(path)


def json_name(name: str) -> str:
    """Return the name of a field in JSON, if the file gives it none."""
    parts = name.split("_")
    return parts[0] + "".join(one[:1].upper() + one[1:] for one in parts[1:])


class _Builder:
    def __init__(self, file: ProtoFile, symbols: SymbolTable) -> None:
        self._file = file
        self._symbols = symbols

    def file(self, path: str) -> Any:
        file = self._file
        built = descriptor_pb2.FileDescriptorProto(name=path, package=file.package or None)
        if file.is_edition:
            built.syntax, built.edition = "editions", EDITIONS[file.syntax]
        elif file.syntax == "proto3":
            built.syntax = "proto3"
        built.dependency.extend(dict.fromkeys([*file.imports, *file.public_imports]))
        built.public_dependency.extend(list(built.dependency).index(one) for one in dict.fromkeys(file.public_imports))
        _set_options(built, file.options)
        for message in file.messages:
            self._message(built.message_type.add(), message, file.package)
        for enum in file.enums:
            _enum(built.enum_type.add(), enum)
        self._extends(built.extension, built.message_type, file.extends, file.package)
        for service in file.services:
            self._service(built.service.add(), service)
        return built

    def _message(self, built: Any, message: ProtoMessage, scope: str) -> None:
        scope = f"{scope}.{message.name}" if scope else message.name
        built.name = message.name
        _set_options(built, message.options)
        optional: list[Any] = []
        for field in message.fields:
            added = self._field(built.field.add(), built.nested_type, field, scope)
            if field.label == "optional" and self._file.syntax == "proto3":
                optional.append(added)
        for group in message.groups:
            self._group(built.field.add(), built.nested_type, group, scope)
        for index, oneof in enumerate(message.oneofs):
            declared = built.oneof_decl.add(name=oneof.name)
            _set_options(declared, oneof.options)
            for field in oneof.fields:
                self._field(built.field.add(), built.nested_type, field, scope).oneof_index = index
            for group in oneof.groups:
                self._group(built.field.add(), built.nested_type, group, scope).oneof_index = index
        for field in optional:
            # An optional field of proto3 is alone in a oneof that only descriptors have.
            field.proto3_optional, field.oneof_index = True, len(built.oneof_decl)
            built.oneof_decl.add(name=f"_{field.name}")
        for nested in message.messages:
            self._message(built.nested_type.add(), nested, scope)
        for enum in message.enums:
            _enum(built.enum_type.add(), enum)
        self._extends(built.extension, built.nested_type, message.extends, scope)
        for start, end in _numbers(message.extensions):
            built.extension_range.add(start=start, end=end + 1)
        for start, end in _numbers(message.reserved):
            built.reserved_range.add(start=start, end=end + 1)
        built.reserved_name.extend(name for one in message.reserved for name in one.names)

    def _field(self, built: Any, nested: Any, field: ProtoField, scope: str) -> Any:
        built.name, built.number, built.label = field.name, field.number, LABELS[field.label]
        types = field.map_types
        if types is None:
            self._set_type(built, field.type, scope)
        else:
            entry = nested.add(name=_entry_name(field.name))
            entry.options.map_entry = True
            for name, number, type in (("key", 1, types[0]), ("value", 2, types[1])):
                self._field(entry.field.add(), nested, ProtoField(name, number, type), f"{scope}.{entry.name}")
            built.label, built.type, built.type_name = (
                _Field.LABEL_REPEATED,
                _Field.TYPE_MESSAGE,
                f".{scope}.{entry.name}",
            )
        self._set_field_options(built, field.options)
        return built

    def _group(self, built: Any, nested: Any, group: ProtoGroup, scope: str) -> Any:
        name = group.message.name
        built.name, built.number, built.label = name.lower(), group.number, LABELS[group.label]
        built.type, built.type_name = _Field.TYPE_GROUP, f".{scope}.{name}" if scope else f".{name}"
        self._set_field_options(built, group.options)
        self._message(nested.add(), group.message, scope)
        return built

    def _set_type(self, built: Any, type: str, scope: str) -> None:
        if type in SCALAR_TYPES:
            built.type = SCALAR_TYPES[type]
            return
        symbol = self._symbols.find(type, scope)
        if symbol is None:
            raise InvalidSchema(f"{WHAT} has the type {type} in {scope or 'the file'}, which is not known")
        built.type = _Field.TYPE_ENUM if isinstance(symbol.declaration, ProtoEnum) else _Field.TYPE_MESSAGE
        built.type_name = f".{symbol.name}"

    def _set_field_options(self, built: Any, options: Options) -> None:
        built.json_name = json_name(built.name)
        for option in options:
            if option.name in _SPECIAL and not isinstance(option.value, ProtoConstant):
                raise InvalidSchema(f"{WHAT}: the {option.name} of the field {built.name} is no single value")
            if option.name == "json_name" and isinstance(option.value, ProtoConstant):
                built.json_name = option.value.text
            elif option.name == "default" and isinstance(option.value, ProtoConstant):
                is_bytes = built.type == _Field.TYPE_BYTES
                built.default_value = escaped(option.value.text) if is_bytes else _utf_8(option.value.text)
        _set_options(built, tuple(one for one in options if one.name not in _SPECIAL))

    def _extends(self, built: Any, nested: Any, extends: Sequence[ProtoExtend], scope: str) -> None:
        for extend in extends:
            symbol = self._symbols.find(extend.target, scope)
            if symbol is None:
                raise InvalidSchema(f"{WHAT} extends {extend.target}, which is not known")
            added = [self._field(built.add(), nested, one, scope) for one in extend.fields]
            added += [self._group(built.add(), nested, one, scope) for one in extend.groups]
            for field in added:
                field.extendee = f".{symbol.name}"

    def _service(self, built: Any, service: ProtoService) -> None:
        built.name = service.name
        _set_options(built, service.options)
        for rpc in service.rpcs:
            method = built.method.add(name=rpc.name)
            method.client_streaming, method.server_streaming = rpc.is_request_stream, rpc.is_response_stream
            for attribute, type in (("input_type", rpc.request), ("output_type", rpc.response)):
                symbol = self._symbols.find(type, self._file.package)
                if symbol is None:
                    raise InvalidSchema(f"{WHAT} has a method {rpc.name} of the type {type}, which is not known")
                setattr(method, attribute, f".{symbol.name}")
            _set_options(method, rpc.options)


def _enum(built: Any, enum: ProtoEnum) -> None:
    built.name = enum.name
    _set_options(built, enum.options)
    for value in enum.values:
        _set_options(built.value.add(name=value.name, number=value.number), value.options)
    for start, end in _numbers(enum.reserved):
        built.reserved_range.add(start=start, end=end)
    built.reserved_name.extend(name for one in enum.reserved for name in one.names)


def _numbers(listed: Sequence[ProtoRanges]) -> list[tuple[int, int]]:
    return [one for ranges in listed for one in ranges.ranges]


def _entry_name(field: str) -> str:
    """Return the name of the message that descriptors have for an entry of a map."""
    return "".join(one[:1].upper() + one[1:] for one in field.split("_")) + "Entry"


def _utf_8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchema(f"{WHAT} has a default text that is no UTF-8") from None
    return text


def _set_options(built: Any, options: Options) -> None:
    """Set the options that `descriptor.proto` has. Raises: InvalidSchema: one it does not have."""
    for option in options:
        if option.is_custom or "(" in option.name:
            continue
        *outer, last = option.name.split(".")
        text = "".join(f"{one} {{ " for one in outer) + f"{last}: {_as_text(option.value)}" + " }" * len(outer)
        try:
            text_format.Merge(text, built.options)
        except (text_format.ParseError, ValueError) as error:
            raise InvalidSchema(f"{WHAT} has an invalid option {option.name}: {str(error)[:200]}") from None


def _as_text(value: ProtoValue) -> str:
    """Return a value in the text format of messages."""
    if isinstance(value, ProtoConstant):
        return f'"{escaped(value.text)}"' if value.kind == "string" else value.text
    if isinstance(value, ProtoAggregate):
        return "{ " + " ".join(f"{name}: {_as_text(one)}" for name, one in value.fields) + " }"
    return "[" + ", ".join(_as_text(one) for one in value) + "]"
