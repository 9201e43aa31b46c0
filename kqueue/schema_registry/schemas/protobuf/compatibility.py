"""Whether a Protobuf reader can read what a writer wrote, and where not.

Source: the rules of Confluent's Schema Registry, and "Updating A Message Type" of Protocol Buffers.
The reader is the update of the writer. Fields are the same by their number, messages by their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.schema_registry.schemas.contract import Incompatibility
from kqueue.schema_registry.schemas.limits import INCOMPATIBILITIES_MAX, ComparisonBudget
from kqueue.schema_registry.schemas.pair_memo import PairMemo
from kqueue.schema_registry.schemas.protobuf.model import (
    Label,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
)
from kqueue.schema_registry.schemas.protobuf.symbols import ProtoSymbol, SymbolTable

WIRE_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "string or bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
"""Scalars that can read each other on the wire; an enum is a number."""
SENTENCES: Mapping[str, str] = {
    "MESSAGE_REMOVED": "The {{reader}} schema lacks the message at path '{path}' of the {{writer}} schema",
    "FIELD_KIND_CHANGED": "The field at path '{path}' of the {{reader}} schema is of another kind (scalar, message, "
    "map or group) than in the {{writer}} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The type of the field at path '{path}' of the {{reader}} schema can not read that "
    "of the {{writer}} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The message of the field at path '{path}' of the {{reader}} schema is another one, "
    "or incompatible with that of the {{writer}} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of the number at path '{path}' of the {{reader}} schema is another one "
    "than in the {{writer}} schema",
    "REQUIRED_FIELD_ADDED": "The required field at path '{path}' of the {{reader}} schema is not in the {{writer}} "
    "schema",
    "REQUIRED_FIELD_REMOVED": "The {{reader}} schema lacks the required field at path '{path}' of the {{writer}} "
    "schema",
    "ONEOF_FIELD_REMOVED": "The oneof at path '{path}' of the {{reader}} schema lacks a field that it has in the "
    "{{writer}} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "The oneof at path '{path}' of the {{reader}} schema has several fields that "
    "were in no oneof in the {{writer}} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "The oneof at path '{path}' of the {{reader}} schema has a field that was in no "
    "oneof in the {{writer}} schema, and others that were in one",
}
"""The incompatible differences, and why. All others are compatible."""
_Found = tuple[Incompatibility, ...]


class ComparedFile(NamedTuple):
    """A file, and the types of it and its imports."""

    file: ProtoFile
    symbols: SymbolTable


def protobuf_incompatibilities(reader: ComparedFile, writer: ComparedFile) -> list[Incompatibility]:
    """Return why the reader can't read what the writer wrote; empty: it can.

    Raises: ComparisonTooLarge, RecursionError.
    """
    comparison = _ProtobufComparison(writer.symbols, reader.symbols)
    found = comparison.types(writer.file.messages, reader.file.messages, (writer.file.package, reader.file.package), "")
    return list(dict.fromkeys(found))[:INCOMPATIBILITIES_MAX]


class _Member(NamedTuple):
    """A field with a number. `oneof`: the name of that which it is in; empty: none."""

    field: ProtoField | ProtoGroup
    oneof: str

    @property
    def label(self) -> Label:
        return self.field.label


Scopes = tuple[str, str]
"""The full names, in the writer's and the reader's schema, in which types are named."""


class _ProtobufComparison:
    """One comparison. Messages that fields have as their type are compared once for each pair."""

    def __init__(self, original: SymbolTable, update: SymbolTable) -> None:
        self._original = original
        self._update = update
        self._budget = ComparisonBudget()
        self._memo: PairMemo[Incompatibility] = PairMemo(self._budget)

    def types(
        self,
        original: tuple[ProtoMessage, ...],
        update: tuple[ProtoMessage, ...],
        scopes: Scopes,
        path: str,
    ) -> _Found:
        """Compare messages that are declared in the same place."""
        updates = {one.name: one for one in update}
        found: _Found = ()
        for one in original:
            within = f"{path}/{one.name}" if path else one.name
            if one.name not in updates:
                found += (_reason("MESSAGE_REMOVED", within),)
                continue
            inner = _within(scopes, one.name)
            found += self._message(one, updates[one.name], inner, within)
        return found[:INCOMPATIBILITIES_MAX]

    def _message(self, original: ProtoMessage, update: ProtoMessage, scopes: Scopes, path: str) -> _Found:
        if original is update:
            return ()
        return self._memo.result(original, update, lambda: self._compare(original, update, scopes, path))

    def _compare(self, original: ProtoMessage, update: ProtoMessage, scopes: Scopes, path: str) -> _Found:
        before, after = _members(original), _members(update)
        self._budget.spend((len(before) + len(after)) // 10)
        found = _oneofs(before, after, update, path)
        for number in sorted(before.keys() | after.keys()):
            old, new = before.get(number), after.get(number)
            if old is not None and new is not None:
                at = f"{path}/{old.oneof}/{number}" if old.oneof and old.oneof == new.oneof else f"{path}/{number}"
                found += self._field(old, new, scopes, at)
            elif new is None and old is not None and old.label == "required":
                found += (_reason("REQUIRED_FIELD_REMOVED", f"{path}/{number}"),)
            elif old is None and new is not None and new.label == "required":
                found += (_reason("REQUIRED_FIELD_ADDED", f"{path}/{number}"),)
        return (found + self.types(original.messages, update.messages, scopes, path))[:INCOMPATIBILITIES_MAX]

    def _field(self, old: _Member, new: _Member, scopes: Scopes, path: str) -> _Found:
        if isinstance(old.field, ProtoGroup) or isinstance(new.field, ProtoGroup):
            if not (isinstance(old.field, ProtoGroup) and isinstance(new.field, ProtoGroup)):
                return (_reason("FIELD_KIND_CHANGED", path),)
            messages = old.field.message, new.field.message
            inner = f"{scopes[0]}.{messages[0].name}", f"{scopes[1]}.{messages[1].name}"
            return self._named(self._message(*messages, inner, path), path)
        return self._types(old, new, (old.field.type, new.field.type), scopes, path)

    def _types(self, old: _Member, new: _Member, types: tuple[str, str], scopes: Scopes, path: str) -> _Found:
        maps = _map_types(types[0]), _map_types(types[1])
        if maps[0] is not None and maps[1] is not None:
            plain = old._replace(oneof=""), new._replace(oneof="")
            keys = self._scalars(*plain, (maps[0][0], maps[1][0]), path, with_labels=False)
            return keys + self._types(*plain, (maps[0][1], maps[1][1]), scopes, path)
        symbols = self._original.find(types[0], scopes[0]), self._update.find(types[1], scopes[1])
        kinds = _kind(types[0], symbols[0]), _kind(types[1], symbols[1])
        if kinds[0] != kinds[1]:
            return (_reason("FIELD_KIND_CHANGED", path),)
        if kinds[0] == "message":
            return self._messages(types, symbols, path)
        groups = _wire_group(types[0], symbols[0]), _wire_group(types[1], symbols[1])
        return self._scalars(old, new, groups, path, with_labels=not (maps[0] or maps[1]))

    def _scalars(self, old: _Member, new: _Member, types: tuple[str, str], path: str, *, with_labels: bool) -> _Found:
        groups = WIRE_GROUPS.get(types[0], types[0]), WIRE_GROUPS.get(types[1], types[1])
        if groups[0] != groups[1]:
            return (_reason("FIELD_SCALAR_KIND_CHANGED", path),)
        is_relabelled = old.label and new.label and old.label != new.label
        if with_labels and is_relabelled and groups[0] != "string or bytes":
            return (_reason("FIELD_NUMERIC_LABEL_CHANGED", path),)
        return ()

    def _messages(
        self, types: tuple[str, str], symbols: tuple[ProtoSymbol | None, ProtoSymbol | None], path: str
    ) -> _Found:
        old, new = symbols
        if old is None or new is None:  # of a stored file with unknown types
            return () if types[0] == types[1] else (_reason("FIELD_NAMED_TYPE_CHANGED", path),)
        if old.local_name != new.local_name:
            return (_reason("FIELD_NAMED_TYPE_CHANGED", path),)
        if not (isinstance(old.declaration, ProtoMessage) and isinstance(new.declaration, ProtoMessage)):
            return ()
        within = old.local_name.replace(".", "/")
        return self._named(self._message(old.declaration, new.declaration, (old.name, new.name), within), path)

    def _named(self, found: _Found, path: str) -> _Found:
        """Return the reasons of a message, and that the field has it, if there are any."""
        return (*found, _reason("FIELD_NAMED_TYPE_CHANGED", path)) if found else ()


def _within(scopes: Scopes, name: str) -> Scopes:
    old, new = (f"{scope}.{name}" if scope else name for scope in scopes)
    return old, new


def _members(message: ProtoMessage) -> dict[int, _Member]:
    """Return the fields and groups of a message by number, those of oneofs too."""
    members = {one.number: _Member(one, "") for one in message.members}
    for oneof in message.oneofs:
        members |= {one.number: _Member(one, oneof.name) for one in oneof.members}
    return members


def _oneofs(before: Mapping[int, _Member], after: Mapping[int, _Member], update: ProtoMessage, path: str) -> _Found:
    """Compare which fields exclude each other."""
    found: list[Incompatibility] = []
    for oneof in update.oneofs:
        numbers = [one.number for one in oneof.members if one.number in before]
        moved = sum(not before[number].oneof for number in numbers)
        if moved > 1:
            found.append(_reason("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof.name}"))
        elif moved == 1 and len(numbers) > 1:
            found.append(_reason("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof.name}"))
    names = {oneof.name for oneof in update.oneofs}
    for number, member in before.items():
        if member.oneof in names and number not in after:
            found.append(_reason("ONEOF_FIELD_REMOVED", f"{path}/{member.oneof}/{number}"))
    return tuple(found)


def _map_types(type: str) -> tuple[str, str] | None:
    return ProtoField("", 1, type).map_types


def _kind(type: str, symbol: ProtoSymbol | None) -> str:
    if type in WIRE_GROUPS or (symbol is not None and isinstance(symbol.declaration, ProtoEnum)):
        return "scalar"
    return "map" if type.startswith("map<") else "message"


def _wire_group(type: str, symbol: ProtoSymbol | None) -> str:
    return WIRE_GROUPS.get(type, "number") if symbol is None or type in WIRE_GROUPS else "number"


def _reason(kind: str, path: str) -> Incompatibility:
    return Incompatibility(kind, f"#/{path}", SENTENCES[kind].format(path=f"#/{path}"))
