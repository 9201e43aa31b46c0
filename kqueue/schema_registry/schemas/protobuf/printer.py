"""The text of a .proto file, in the order and with the spaces of Confluent's registry.

The normal form is one for files that differ in the order of declarations other than messages and
enums, and in how names of types are written. Messages keep their order: frames count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kqueue.schema_registry.schemas.protobuf.model import (
    ENUM_NUMBER_MAX,
    FIELD_NUMBER_MAX,
    SCALARS,
    Options,
    ProtoAggregate,
    ProtoConstant,
    ProtoEnum,
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
from kqueue.schema_registry.schemas.protobuf.tokens import escaped

KEPT_EXTENSIONS = "(confluent."
"""Custom options that stay when extensions are ignored."""
T = TypeVar("T")
Resolve = Callable[[str, str], str]


def print_file(file: ProtoFile, *, with_extensions: bool = True, resolve: Resolve | None = None) -> str:
    """Return the text.

    Args:
        with_extensions: False: without custom options and extensions.
        resolve: returns the full name of a type that is named in a scope, a message's full name or
            the package; the text is in its normal form. None: it is as written.
    """
    return _Printer(file, with_extensions, resolve).file()


class _Printer:
    def __init__(self, file: ProtoFile, with_extensions: bool, resolve: Resolve | None) -> None:
        self._file = file
        self._with_extensions = with_extensions
        self._resolve = resolve

    @property
    def _is_normal(self) -> bool:
        return self._resolve is not None

    def file(self) -> str:
        """Return the text of the file."""
        file = self._file
        head = ""
        if file.is_edition:
            head += f'edition = "{file.syntax}";\n'
        elif file.syntax and not (self._is_normal and file.syntax == "proto2"):
            head += f'syntax = "{file.syntax}";\n'
        if file.package:
            head += f"package {file.package};\n"
        imports = [f'import "{escaped(one)}";\n' for one in self._set(file.imports)]
        imports += [f'import public "{escaped(one)}";\n' for one in self._set(file.public_imports)]
        types = [self._message(one, file.package) for one in file.messages] + [self._enum(one) for one in file.enums]
        extends = [self._extend(one, file.package) for one in self._extends(file.extends, file.package)]
        sections = (
            imports,
            self._option_lines(file.options),
            types,
            extends,
            [self._service(one) for one in file.services],
        )
        return head + "".join("\n" + "".join(section) for section in sections if section)

    def _message(self, message: ProtoMessage, scope: str, keyword: str = "") -> str:
        scope = f"{scope}.{message.name}" if scope else message.name
        oneofs = self._sorted(message.oneofs, _first_number)
        if self._is_normal:
            oneofs = [one for one in oneofs if one.fields or one.groups]
        ranges = self._split(message.extensions) if self._with_extensions else []
        sections = (
            [self._ranges("reserved", one, FIELD_NUMBER_MAX) for one in self._split(message.reserved)],
            self._option_lines(message.options),
            [self._field(one, scope) for one in self._sorted(message.fields, lambda one: one.number)],
            [self._oneof(one, scope) for one in oneofs],
            [self._group(one, scope) for one in self._sorted(message.groups, lambda one: one.number)],
            [self._ranges("extensions", one, FIELD_NUMBER_MAX) for one in ranges],
            [self._extend(one, scope) for one in self._extends(message.extends, scope)],
            [self._message(one, scope) for one in message.messages] + [self._enum(one) for one in message.enums],
        )
        head = keyword or f"message {message.name}"
        return f"{head} {{{_body(sections)}}}\n"

    def _enum(self, enum: ProtoEnum) -> str:
        # Zero stays before negative numbers: proto3 wants it first.
        values = self._sorted(enum.values, lambda one: (one.number < 0, one.number, one.name))
        reserved = [self._ranges("reserved", one, ENUM_NUMBER_MAX) for one in self._split(enum.reserved)]
        lines = [f"{one.name} = {one.number}{self._options(one.options)};\n" for one in values]
        return f"enum {enum.name} {{{_body([[*reserved, *self._option_lines(enum.options), *lines]])}}}\n"

    def _oneof(self, oneof: ProtoOneof, scope: str) -> str:
        sections = (
            self._option_lines(oneof.options),
            [self._field(one, scope) for one in self._sorted(oneof.fields, lambda one: one.number)],
            [self._group(one, scope) for one in self._sorted(oneof.groups, lambda one: one.number)],
        )
        return f"oneof {oneof.name} {{{_body(sections)}}}\n"

    def _group(self, group: ProtoGroup, scope: str) -> str:
        label = f"{group.label} " if group.label else ""
        head = f"{label}group {group.message.name} = {group.number}{self._options(group.options)}"
        return self._message(group.message, scope, head)

    def _extends(self, extends: Sequence[ProtoExtend], scope: str) -> Sequence[ProtoExtend]:
        """Return what is extended; in the normal form, each message once."""
        if not self._with_extensions:
            return ()
        if self._resolve is None:
            return extends
        joined: dict[str, ProtoExtend] = {}
        for one in extends:
            target = self._type(one.target, scope)
            before = joined.get(target, ProtoExtend(target))
            joined[target] = ProtoExtend(target, (*before.fields, *one.fields), (*before.groups, *one.groups))
        return list(joined.values())

    def _extend(self, extend: ProtoExtend, scope: str) -> str:
        lines = [self._field(one, scope) for one in self._sorted(extend.fields, lambda one: one.number)]
        lines += [self._group(one, scope) for one in self._sorted(extend.groups, lambda one: one.number)]
        return f"extend {extend.target} {{{_body([lines])}}}\n"

    def _field(self, field: ProtoField, scope: str) -> str:
        label = f"{field.label} " if field.label else ""
        special = [one for one in field.options if one.name in ("default", "json_name")]
        special.sort(key=lambda one: one.name)
        options = self._options((*(one for one in field.options if one not in special), *special))
        return f"{label}{self._field_type(field, scope)} {field.name} = {field.number}{options};\n"

    def _field_type(self, field: ProtoField, scope: str) -> str:
        types = field.map_types
        if types is None:
            return self._type(field.type, scope)
        return f"map<{types[0]}, {self._type(types[1], scope)}>"

    def _type(self, name: str, scope: str) -> str:
        if self._resolve is None or name in SCALARS:
            return name
        return "." + self._resolve(name, scope).removeprefix(".")

    def _service(self, service: ProtoService) -> str:
        sections = (self._option_lines(service.options), [self._rpc(one) for one in service.rpcs])
        return f"service {service.name} {{{_body(sections)}}}\n"

    def _rpc(self, rpc: ProtoRpc) -> str:
        package = self._file.package
        request = f"{'stream ' if rpc.is_request_stream else ''}{self._type(rpc.request, package)}"
        response = f"{'stream ' if rpc.is_response_stream else ''}{self._type(rpc.response, package)}"
        options = self._option_lines(rpc.options)
        body = f" {{\n{_indented(options)}}}" if options else ""
        return f"rpc {rpc.name} ({request}) returns ({response}){body};\n"

    def _ranges(self, keyword: str, one: ProtoRanges, highest: int) -> str:
        # Editions have names where the other files have texts.
        items = [name if self._file.is_edition else f'"{escaped(name)}"' for name in one.names]
        for start, end in one.ranges:
            items.append(str(start) if start == end else f"{start} to {'max' if end == highest else end}")
        return f"{keyword} {', '.join(items)}{self._options(one.options)};\n"

    # --- options

    def _kept(self, options: Options) -> list[ProtoOption]:
        kept = [
            one for one in options if self._with_extensions or not one.is_custom or one.name.startswith(KEPT_EXTENSIONS)
        ]
        return sorted(kept, key=lambda one: one.name) if self._is_normal else kept

    def _option_lines(self, options: Options) -> list[str]:
        return [f"option {self._option(one)};\n" for one in self._kept(options)]

    def _options(self, options: Options) -> str:
        """Return options in brackets, a space before them; empty: there are none."""
        kept = [self._option(one) for one in self._kept(options)]
        if not kept:
            return ""
        return f" [{kept[0]}]" if len(kept) == 1 else f" [\n{_indented(_separated(kept))}]"

    def _option(self, option: ProtoOption) -> str:
        value = option.value
        if isinstance(value, tuple) and len(value) == 1:
            return f"{option.name} = [{self._value(value[0])}]"
        return f"{option.name} = {self._value(value)}"

    def _value(self, value: ProtoValue) -> str:
        if isinstance(value, ProtoConstant):
            return f'"{escaped(value.text)}"' if value.kind == "string" else self._constant(value)
        if isinstance(value, ProtoAggregate):
            fields = sorted(value.fields, key=lambda one: one[0]) if self._is_normal else value.fields
            return f"{{\n{_indented(_separated(f'{name}: {self._value(one)}' for name, one in fields))}}}"
        return f"[\n{_indented(_separated(self._value(one) for one in value))}]"

    def _constant(self, value: ProtoConstant) -> str:
        """Return a name or a number; a number in its normal form as a decimal one."""
        if value.kind == "name" or not self._is_normal:
            return value.text
        sign, text = ("-", value.text[1:]) if value.text.startswith("-") else ("", value.text)
        if text[:2].lower() == "0x":
            return f"{sign}{int(text, 16)}"
        if text.isdecimal():
            return f"{sign}{int(text, 8) if _is_octal(text) else int(text[:100])}"
        try:
            number = float(text.rstrip("fF") if text[:1] in "0123456789." else text)
        except ValueError:
            return value.text
        return f"{sign}{int(number) if number.is_integer() and number < 1e15 else number}"

    # --- order

    def _set(self, paths: tuple[str, ...]) -> Sequence[str]:
        return sorted(set(paths)) if self._is_normal else paths

    def _sorted(self, listed: Sequence[T], key: Callable[[T], object]) -> Sequence[T]:
        return sorted(listed, key=key) if self._is_normal else listed  # type: ignore[arg-type]

    def _split(self, listed: Sequence[ProtoRanges]) -> Sequence[ProtoRanges]:
        """Return ranges; in the normal form one for each number, range and name."""
        if not self._is_normal:
            return listed
        ranges = [ProtoRanges((one,), (), ranges.options) for ranges in listed for one in ranges.ranges]
        ranges.sort(key=lambda one: one.ranges[0])
        names = sorted({name for one in listed for name in one.names})
        return [*ranges, *(ProtoRanges((), (name,)) for name in names)]


def _is_octal(text: str) -> bool:
    return len(text) > 1 and text[0] == "0" and not set(text) & set("89")


def _first_number(oneof: ProtoOneof) -> int:
    return min((one.number for one in oneof.members), default=0)


def _body(sections: Iterable[Sequence[str]]) -> str:
    """Return what is between braces: sections of declarations, a blank line between them."""
    return "".join("\n" + _indented(section) for section in sections if section)


def _separated(items: Iterable[str]) -> list[str]:
    listed = list(items)
    return [f"{one},\n" for one in listed[:-1]] + [f"{one}\n" for one in listed[-1:]]


def _indented(texts: Iterable[str]) -> str:
    return "".join(f"  {line}\n" for text in texts for line in text.removesuffix("\n").split("\n"))
