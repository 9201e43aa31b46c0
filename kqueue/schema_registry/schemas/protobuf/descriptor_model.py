"""The model of a file that comes as Google's descriptor: clients send it in base64.

Messages of the entries of maps become maps again. Custom options, which descriptors have as
unknown fields, are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2

from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.protobuf.descriptors import EDITIONS, LABELS, SCALAR_TYPES, json_name
from kqueue.schema_registry.schemas.protobuf.model import (
    Label,
    Options,
    ProtoAggregate,
    ProtoConstant,
    ProtoEnum,
    ProtoEnumValue,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
    ProtoRanges,
    ProtoRpc,
    ProtoService,
    ProtoValue,
)
from kqueue.schema_registry.schemas.protobuf.tokens import WHAT, tokens_of

_Field = descriptor_pb2.FieldDescriptorProto
_SCALAR_NAMES = {number: name for name, number in SCALAR_TYPES.items()}


def file_model(descriptor: Any) -> ProtoFile:
    """Return the model of a `FileDescriptorProto`. Raises: InvalidSchema."""
    syntax = "proto3" if descriptor.syntax == "proto3" else "proto2"
    if descriptor.syntax == "editions":
        known = {number: name for name, number in EDITIONS.items()}
        if descriptor.edition not in known:
            raise InvalidSchema(f"{WHAT} is of an edition that is not known")
        syntax = known[descriptor.edition]
    try:
        public = {descriptor.dependency[index] for index in descriptor.public_dependency}
    except IndexError:
        raise InvalidSchema(f"{WHAT} has a public import that it does not import") from None
    builder = _ModelBuilder(syntax)
    return ProtoFile(
        syntax=syntax,
        package=descriptor.package,
        imports=tuple(one for one in descriptor.dependency if one not in public),
        public_imports=tuple(one for one in descriptor.dependency if one in public),
        options=_options(descriptor.options),
        messages=tuple(builder.message(one) for one in descriptor.message_type),
        enums=tuple(_enum(one) for one in descriptor.enum_type),
        extends=builder.extends(descriptor.extension),
        services=tuple(_service(one) for one in descriptor.service),
    )


class _ModelBuilder:
    def __init__(self, syntax: str) -> None:
        self._syntax = syntax

    def message(self, descriptor: Any) -> ProtoMessage:
        nested = {one.name: one for one in descriptor.nested_type}
        entries = {name: one for name, one in nested.items() if one.options.map_entry}
        groups = {_last(one.type_name) for one in descriptor.field if one.type == _Field.TYPE_GROUP}
        plain: list[Any] = []
        members: dict[int, list[Any]] = {}
        for field in descriptor.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                members.setdefault(field.oneof_index, []).append(field)
            else:
                plain.append(field)
        oneofs = tuple(
            ProtoOneof(one.name, *self._fields(members[index], nested, entries), _options(one.options))
            for index, one in enumerate(descriptor.oneof_decl)
            if index in members
        )
        fields, own_groups = self._fields(plain, nested, entries)
        return ProtoMessage(
            descriptor.name,
            fields,
            oneofs,
            own_groups,
            tuple(self.message(one) for name, one in nested.items() if name not in entries and name not in groups),
            tuple(_enum(one) for one in descriptor.enum_type),
            _reserved([(one.start, one.end - 1) for one in descriptor.reserved_range], descriptor.reserved_name),
            _reserved([(one.start, one.end - 1) for one in descriptor.extension_range], ()),
            self.extends(descriptor.extension),
            tuple(one for one in _options(descriptor.options) if one.name != "map_entry"),
        )

    def _fields(
        self, descriptors: Iterable[Any], nested: dict[str, Any], entries: dict[str, Any]
    ) -> tuple[tuple[ProtoField, ...], tuple[ProtoGroup, ...]]:
        fields: list[ProtoField] = []
        groups: list[ProtoGroup] = []
        for one in descriptors:
            label = self._label(one)
            options = _field_options(one)
            name = _last(one.type_name)
            if one.type == _Field.TYPE_GROUP:
                if name not in nested:
                    raise InvalidSchema(f"{WHAT} has a group {one.name} without its message")
                groups.append(ProtoGroup(one.number, self.message(nested[name]), label, options))
            elif one.label == _Field.LABEL_REPEATED and name in entries and one.type == _Field.TYPE_MESSAGE:
                types = [_type(field) for field in entries[name].field]
                if len(types) != 2:
                    raise InvalidSchema(f"{WHAT} has a map {one.name} without a key or value")
                fields.append(ProtoField(one.name, one.number, f"map<{types[0]}, {types[1]}>", "", options))
            else:
                fields.append(ProtoField(one.name, one.number, _type(one), label, options))
        return tuple(fields), tuple(groups)

    def _label(self, field: Any) -> Label:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return ""
        if self._syntax != "proto2" and field.label == _Field.LABEL_OPTIONAL and not field.proto3_optional:
            return ""
        labels: dict[int, Label] = {number: name for name, number in LABELS.items() if name}  # type: ignore[misc]
        return labels.get(field.label, "")

    def extends(self, descriptors: Iterable[Any]) -> tuple[ProtoExtend, ...]:
        """Return what is extended, without groups, which clients do not send."""
        by_target: dict[str, list[Any]] = {}
        for one in descriptors:
            by_target.setdefault(one.extendee, []).append(one)
        return tuple(ProtoExtend(target, *self._fields(listed, {}, {})) for target, listed in by_target.items())


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _type(field: Any) -> str:
    name = _SCALAR_NAMES.get(field.type, field.type_name) if field.HasField("type") else field.type_name
    if not name:
        raise InvalidSchema(f"{WHAT} has the field {field.name} without a type")
    return str(name)


def _enum(descriptor: Any) -> ProtoEnum:
    return ProtoEnum(
        descriptor.name,
        tuple(ProtoEnumValue(one.name, one.number, _options(one.options)) for one in descriptor.value),
        _reserved([(one.start, one.end) for one in descriptor.reserved_range], descriptor.reserved_name),
        _options(descriptor.options),
    )


def _service(descriptor: Any) -> ProtoService:
    rpcs = tuple(
        ProtoRpc(
            one.name, one.input_type, one.output_type, one.client_streaming, one.server_streaming, _options(one.options)
        )
        for one in descriptor.method
    )
    return ProtoService(descriptor.name, rpcs, _options(descriptor.options))


def _reserved(ranges: Iterable[tuple[int, int]], names: Iterable[str]) -> tuple[ProtoRanges, ...]:
    """Return a statement for the ranges, and one for the names, as text has them."""
    statements = (ProtoRanges(tuple(ranges)), ProtoRanges((), tuple(names)))
    return tuple(one for one in statements if one.ranges or one.names)


def _field_options(field: Any) -> Options:
    options = list(_options(field.options))
    if field.HasField("default_value"):
        text = field.default_value
        if field.type == _Field.TYPE_BYTES:
            text = tokens_of(f'"{text}"')[0].text
        kind = "string" if field.type in (_Field.TYPE_STRING, _Field.TYPE_BYTES) else "number"
        if kind == "number" and (text[:1].isalpha() or text[:1] == "_"):
            kind = "name"
        options.append(ProtoOption("default", ProtoConstant(kind, text)))  # type: ignore[arg-type]
    if field.json_name and field.json_name != json_name(field.name):
        options.append(ProtoOption("json_name", ProtoConstant("string", field.json_name)))
    return tuple(options)


def _options(message: Any) -> Options:
    """Return the options of `descriptor.proto` that are set."""
    found: list[ProtoOption] = []
    for field, value in message.ListFields():
        if field.is_extension or field.name == "uninterpreted_option":
            continue
        if field.message_type is not None and not _is_repeated(value):
            found += [ProtoOption(f"{field.name}.{one.name}", one.value) for one in _options(value)]
        else:
            values = [_value(field, one) for one in (value if _is_repeated(value) else [value])]
            found += [ProtoOption(field.name, one) for one in values]
    return tuple(found)


def _is_repeated(value: Any) -> bool:
    return hasattr(value, "append") or hasattr(value, "add")


def _value(field: Any, value: Any) -> ProtoValue:
    if field.message_type is not None:
        return ProtoAggregate(tuple((one.name, _value(one, inner)) for one, inner in value.ListFields()))
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return ProtoConstant("number", str(value)) if known is None else ProtoConstant("name", known.name)
    if isinstance(value, bool):
        return ProtoConstant("name", "true" if value else "false")
    if isinstance(value, str):
        return ProtoConstant("string", value)
    return ProtoConstant("number", str(value))
