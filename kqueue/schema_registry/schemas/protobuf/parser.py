"""The text of a .proto file as a model.

Source: the Protocol Buffers language specifications of proto2, proto3 and editions. What only a
compiler can tell, such as numbers used twice, Google's package checks later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.base.text import short_repr
from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.limits import DEPTH_MAX
from kqueue.schema_registry.schemas.protobuf.model import (
    ENUM_NUMBER_MAX,
    FIELD_NUMBER_MAX,
    SCALARS,
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
from kqueue.schema_registry.schemas.protobuf.tokens import WHAT, Token, tokens_of

EDITIONS = ("2023", "2024")
MAP_KEYS = SCALARS - {"double", "float", "bytes"}
T = TypeVar("T")


def parse_file(text: str) -> ProtoFile:
    """Return the model of a .proto file. Raises: InvalidSchema: with the line."""
    try:
        return _Parser(tokens_of(text)).file()
    except RecursionError:
        raise InvalidSchema(f"{WHAT} is nested too deeply") from None


class _Collected(dict[str, list[Any]]):
    """Declarations of one body by the attribute of the model that has them."""

    def add(self, name: str, declaration: Any) -> None:
        self.setdefault(name, []).append(declaration)

    def tuples(self) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(listed) for name, listed in self.items()}


class _Parser:
    """Reads tokens from the first to the last."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._is_edition = False

    # --- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _peek(self, count: int) -> Token:
        """Return the token that is so many after the next one; the end if there are fewer."""
        return self._tokens[min(self._next + count, len(self._tokens) - 1)]

    def _error(self, expected: str) -> InvalidSchema:
        token = self._token
        found = "the end" if token.kind == "end" else short_repr(token.text)
        return InvalidSchema(f"{WHAT}, line {token.line}: expected {expected}, found {found}")

    def _take(self, kind: str, expected: str) -> str:
        token = self._token
        if token.kind != kind:
            raise self._error(expected)
        self._next += 1
        return token.text

    def _symbol(self, *symbols: str) -> str:
        if self._token.kind != "symbol" or self._token.text not in symbols:
            raise self._error(" or ".join(symbols))
        return self._take("symbol", "")

    def _has_symbol(self, symbol: str) -> bool:
        """Take a symbol if it is next."""
        if self._token.kind == "symbol" and self._token.text == symbol:
            self._next += 1
            return True
        return False

    def _is_word(self, *words: str) -> bool:
        return self._token.kind == "name" and self._token.text in words

    def _name(self, what: str = "a name") -> str:
        return self._take("name", what)

    def _full_name(self, what: str = "the name of a type") -> str:
        """Take a name with dots, perhaps one before it."""
        name = "." if self._has_symbol(".") else ""
        name += self._name(what)
        while self._has_symbol("."):
            name += "." + self._name(what)
        return name

    def _string(self) -> str:
        """Take a text, perhaps of several parts."""
        text = self._take("string", "a text in quotes")
        while self._token.kind == "string":
            text += self._take("string", "")
        return text

    def _integer(self, lowest: int, highest: int) -> int:
        sign = -1 if self._has_symbol("-") else 1
        text = self._token.text
        if self._token.kind != "number" or len(text) > 30:
            raise self._error("a whole number")
        try:
            number = sign * (int(text, 8) if len(text) > 1 and text.isdecimal() and text[0] == "0" else int(text, 0))
        except ValueError:
            raise self._error("a whole number") from None
        if not lowest <= number <= highest:
            raise self._error(f"a number from {lowest} to {highest}")
        self._next += 1
        return number

    def _within(self, read: Callable[[], T]) -> T:
        """Read something one level deeper."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidSchema(f"{WHAT} is nested more than {DEPTH_MAX} deep")
        found = read()
        self._depth -= 1
        return found

    # --- the file

    def file(self) -> ProtoFile:
        syntax = self._syntax()
        package = ""
        collected = _Collected()
        while self._token.kind != "end":
            if self._has_symbol(";"):
                continue
            if self._is_word("package"):
                if package:
                    raise self._error("one package only")
                self._next += 1
                package = self._full_name("the name of the package")
                self._symbol(";")
            elif self._is_word("import"):
                self._import(collected)
            elif not (self._is_word("option", "message", "enum", "extend") and self._declaration(collected)):
                if not self._is_word("service"):
                    raise self._error("a declaration, such as message")
                collected.add("services", self._service())
        return ProtoFile(syntax=syntax, package=package, **collected.tuples())

    def _syntax(self) -> str:
        """Take the statement of the syntax or the edition; empty: there is none."""
        if not self._is_word("syntax", "edition"):
            return ""
        self._is_edition = self._name() == "edition"
        self._symbol("=")
        syntax = self._token.text
        known = EDITIONS if self._is_edition else ("proto2", "proto3")
        if self._token.kind != "string" or syntax not in known:
            raise self._error(" or ".join(f'"{one}"' for one in known))
        self._next += 1
        self._symbol(";")
        return syntax

    def _import(self, collected: _Collected) -> None:
        self._next += 1
        is_public = self._is_word("public")
        if is_public or self._is_word("weak", "option"):
            self._next += 1
        collected.add("public_imports" if is_public else "imports", self._string())
        self._symbol(";")

    def _declaration(self, collected: _Collected) -> bool:
        """Take what both files and messages have. Returns whether that is next."""
        following = self._peek(1)
        if self._is_word("option"):
            collected.add("options", self._option_statement())
        elif self._is_word("message") and following.kind == "name":
            self._next += 1
            collected.add("messages", self._within(self._message))
        elif self._is_word("enum") and following.kind == "name":
            collected.add("enums", self._enum())
        elif self._is_word("extend") and following.kind in ("name", "symbol") and following.text != "=":
            collected.add("extends", self._extend())
        else:
            return False
        return True

    # --- messages

    def _message(self) -> ProtoMessage:
        name = self._name("the name of a message")
        return self._message_body(name)

    def _message_body(self, name: str) -> ProtoMessage:
        collected = _Collected()
        self._symbol("{")
        while not self._has_symbol("}"):
            if self._has_symbol(";"):
                continue
            following = self._peek(1) if self._token.kind == "name" else self._token
            is_field = following.kind == "symbol" and following.text in (".", "=")
            is_statement = not is_field or (self._is_word("extend") and following.text == ".")
            if self._is_reserved():
                collected.add("reserved", self._ranges(FIELD_NUMBER_MAX, 1))
            elif self._is_word("extensions") and following.kind == "number":
                collected.add("extensions", self._ranges(FIELD_NUMBER_MAX, 1))
            elif self._is_word("oneof") and is_statement:
                collected.add("oneofs", self._oneof())
            elif not (is_statement and self._declaration(collected)):
                self._field(collected, self._label())
        return ProtoMessage(name, **collected.tuples())

    def _is_reserved(self) -> bool:
        """Return whether a statement is next that reserves numbers or names, and no field."""
        first = self._peek(1)
        if not self._is_word("reserved"):
            return False
        is_list_of_names = self._is_edition and first.kind == "name" and self._peek(2).text in (",", ";")
        return first.kind in ("number", "string") or is_list_of_names

    def _label(self) -> Label:
        labels: tuple[Label, ...] = ("optional", "required", "repeated")
        for label in labels:
            following = self._peek(1)
            if self._is_word(label) and following.kind in ("name", "symbol") and following.text not in ("=",):
                self._next += 1
                return label
        return ""

    def _field(self, collected: _Collected, label: Label = "") -> None:
        """Take a field or a group."""
        if self._is_word("group") and self._peek(1).kind == "name":
            following = self._peek(2)
            if following.text == "=" and self._peek(1).text[:1].isupper():
                collected.add("groups", self._group(label))
                return
        type = self._map_type() if self._is_map() else self._full_name("the type of a field")
        if type.startswith("map<") and label:
            raise self._error("no label before a map")
        name = self._name("the name of a field")
        self._symbol("=")
        number = self._integer(1, FIELD_NUMBER_MAX)
        options = self._bracketed_options()
        self._symbol(";")
        collected.add("fields", ProtoField(name, number, type, label, options))

    def _is_map(self) -> bool:
        return self._is_word("map") and self._peek(1).text == "<"

    def _map_type(self) -> str:
        self._next += 1
        self._symbol("<")
        if self._token.text not in MAP_KEYS:
            raise self._error("the type of a map's keys: a whole number, bool or string")
        key = self._name()
        self._symbol(",")
        value = self._full_name("the type of a map's values")
        self._symbol(">")
        return f"map<{key}, {value}>"

    def _group(self, label: Label) -> ProtoGroup:
        self._next += 1
        name = self._name("the name of a group")
        self._symbol("=")
        number = self._integer(1, FIELD_NUMBER_MAX)
        options = self._bracketed_options()
        return ProtoGroup(number, self._within(lambda: self._message_body(name)), label, options)

    def _oneof(self) -> ProtoOneof:
        self._next += 1
        name = self._name("the name of a oneof")
        collected = _Collected()
        self._symbol("{")
        while not self._has_symbol("}"):
            if self._has_symbol(";"):
                continue
            if self._is_word("option") and self._peek(1).text != "=":
                collected.add("options", self._option_statement())
            else:
                self._field(collected)
        return ProtoOneof(name, **collected.tuples())

    def _extend(self) -> ProtoExtend:
        self._next += 1
        target = self._full_name()
        collected = _Collected()
        self._symbol("{")
        while not self._has_symbol("}"):
            if not self._has_symbol(";"):
                self._field(collected, self._label())
        return ProtoExtend(target, **collected.tuples())

    def _ranges(self, highest: int, lowest: int) -> ProtoRanges:
        """Take a statement ``reserved`` or ``extensions``."""
        self._next += 1
        ranges: list[tuple[int, int]] = []
        names: list[str] = []
        while True:
            if self._token.kind == "string":
                names.append(self._string())
            elif self._token.kind == "name":
                names.append(self._name())
            else:
                start = end = self._integer(lowest, highest)
                if self._is_word("to"):
                    self._next += 1
                    if self._is_word("max"):
                        self._next += 1
                        end = highest
                    else:
                        end = self._integer(start, highest)
                ranges.append((start, end))
            if not self._has_symbol(","):
                break
        options = self._bracketed_options()
        self._symbol(";")
        return ProtoRanges(tuple(ranges), tuple(names), options)

    # --- enums and services

    def _enum(self) -> ProtoEnum:
        self._next += 1
        name = self._name("the name of an enum")
        collected = _Collected()
        self._symbol("{")
        while not self._has_symbol("}"):
            if self._has_symbol(";"):
                continue
            is_value = self._token.kind == "name" and self._peek(1).text == "="
            if self._is_word("option") and not is_value:
                collected.add("options", self._option_statement())
            elif self._is_word("reserved") and not is_value:
                collected.add("reserved", self._ranges(ENUM_NUMBER_MAX, -ENUM_NUMBER_MAX - 1))
            else:
                value = self._name("the name of a value")
                self._symbol("=")
                number = self._integer(-ENUM_NUMBER_MAX - 1, ENUM_NUMBER_MAX)
                collected.add("values", ProtoEnumValue(value, number, self._bracketed_options()))
                self._symbol(";")
        return ProtoEnum(name, **collected.tuples())

    def _service(self) -> ProtoService:
        self._next += 1
        name = self._name("the name of a service")
        collected = _Collected()
        self._symbol("{")
        while not self._has_symbol("}"):
            if self._has_symbol(";"):
                continue
            if self._is_word("option"):
                collected.add("options", self._option_statement())
            elif self._is_word("rpc"):
                collected.add("rpcs", self._rpc())
            else:
                raise self._error("rpc")
        return ProtoService(name, **collected.tuples())

    def _rpc(self) -> ProtoRpc:
        self._next += 1
        name = self._name("the name of a method")
        is_request_stream, request = self._rpc_type()
        if not self._is_word("returns"):
            raise self._error("returns")
        self._next += 1
        is_response_stream, response = self._rpc_type()
        options: list[ProtoOption] = []
        if self._has_symbol("{"):
            while not self._has_symbol("}"):
                if not self._has_symbol(";"):
                    options.append(self._option_statement())
        else:
            self._symbol(";")
        return ProtoRpc(name, request, response, is_request_stream, is_response_stream, tuple(options))

    def _rpc_type(self) -> tuple[bool, str]:
        self._symbol("(")
        is_stream = self._is_word("stream") and self._peek(1).text != ")"
        if is_stream:
            self._next += 1
        type = self._full_name()
        self._symbol(")")
        return is_stream, type

    # --- options

    def _option_statement(self) -> ProtoOption:
        if not self._is_word("option"):
            raise self._error("option")
        self._next += 1
        option = self._option()
        self._symbol(";")
        return option

    def _bracketed_options(self) -> Options:
        """Take options in brackets, if there are any."""
        if not self._has_symbol("["):
            return ()
        options = [self._option()]
        while self._has_symbol(","):
            options.append(self._option())
        self._symbol("]")
        return tuple(options)

    def _option(self) -> ProtoOption:
        parts = [self._option_name_part()]
        while self._has_symbol("."):
            parts.append(self._option_name_part())
        self._symbol("=")
        return ProtoOption(".".join(parts), self._within(self._value))

    def _option_name_part(self) -> str:
        if self._has_symbol("("):
            name = self._full_name("the name of an option")
            self._symbol(")")
            return f"({name})"
        return self._name("the name of an option")

    def _value(self) -> ProtoValue:
        if self._has_symbol("{"):
            return self._aggregate("}")
        if self._has_symbol("<"):
            return self._aggregate(">")
        if self._has_symbol("["):
            return self._list()
        if self._token.kind == "string":
            return ProtoConstant("string", self._string())
        sign = "-" if self._has_symbol("-") else ""
        if not sign:
            self._has_symbol("+")
        if self._token.kind == "number" or (sign and self._is_word("inf", "nan")):
            text = self._token.text
            self._next += 1
            return ProtoConstant("number", sign + text)
        if sign:
            raise self._error("a number")
        return ProtoConstant("name", self._name("a value"))

    def _list(self) -> tuple[ProtoValue, ...]:
        values: list[ProtoValue] = []
        while not self._has_symbol("]"):
            values.append(self._within(self._value))
            if not self._has_symbol(","):
                self._symbol("]")
                break
        return tuple(values)

    def _aggregate(self, end: str) -> ProtoAggregate:
        fields: list[tuple[str, ProtoValue]] = []
        while not self._has_symbol(end):
            name = self._aggregate_name()
            if not self._has_symbol(":") and self._token.text not in ("{", "<"):
                raise self._error(":")
            fields.append((name, self._within(self._value)))
            if not self._has_symbol(","):
                self._has_symbol(";")
        return ProtoAggregate(tuple(fields))

    def _aggregate_name(self) -> str:
        if not self._has_symbol("["):
            return self._name("the name of a field")
        name = self._full_name("the name of an extension")
        while self._has_symbol("/"):
            name += "/" + self._full_name("the name of a type")
        self._symbol("]")
        return f"[{name}]"
