"""The costliest requests of an API, derived from its schema: each list in turn filled with as many
of its smallest entries as fit.

They are written as bytes, without objects: a list of a million entries is one template, repeated or
numbered.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.schema.field_types import (
    ArrayType,
    FieldType,
    FixedSizeType,
    LengthPrefixedType,
    StructType,
    record_data,
    string,
)
from kqueue.schema.structs import Field, Schema, message_schema_of

SAME = "same"
"""All entries are alike, and empty where possible."""
DISTINCT = "distinct"
"""Every name in the list is different and unknown."""
KNOWN = "known"
"""Names of existing objects, from `NAMES`, repeated."""
LONG = "long"
"""Names of the greatest length."""
TAGS = "tags"
"""Unknown tagged fields."""

NAMES: Mapping[str, str] = {
    "name": "t",
    "topic": "t",
    "resource_name": "t",
    "group_id": "g",
    "groups": "g",
    "groups_names": "g",
    "topic_names": "t",
    "coordinator_keys": "g",
    "key": "g",
}
NUMBERS: Mapping[str, int | bool] = {
    "acks": -1,
    "validate_only": True,
    "replica_id": -1,
    "timeout_ms": 1000,
    "resource_type": 2,
    "session_epoch": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "num_partitions": 1,
    "replication_factor": 1,
    "include_synonyms": True,
    "include_documentation": True,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "count": 2,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "timestamp": -1,
}
BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, None, b"v", (), -1)]))
"""The records for a known partition: the smallest batch, which is appended."""
MARK = b"\xf0NAME\xf0"
DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Case(NamedTuple):
    """One request: `path` is the list that is filled, from the outermost field inward."""

    path: tuple[str, ...]
    mode: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}-{self.mode}"


def cases(cls: type[Any], version: int) -> list[Case]:
    """Return every list of the message that can be filled, in every way that makes a difference,
    and tags where the version has them.
    """
    schema = message_schema_of(cls)
    all_cases = []
    for path, kind in _lists(schema, version):
        modes = [SAME]
        if _names(kind, version):
            modes += [DISTINCT, KNOWN, LONG]
        elif _has_records(kind, version):
            modes.append(KNOWN)
        all_cases += [Case(path, mode) for mode in modes]
    if version in schema.flexible:
        all_cases.append(Case((), TAGS))
    return all_cases


def _lists(schema: Schema, version: int) -> Iterator[tuple[tuple[str, ...], FieldType[Any]]]:
    for each in [*schema.fields_at(version), *schema.tagged_at(version)]:
        of = each.kind.of if isinstance(each.kind, ArrayType) else each.kind
        if isinstance(each.kind, ArrayType):
            yield (each.name,), of
        if isinstance(of, StructType):
            for path, kind in _lists(of.schema, version):
                yield (each.name, *path), kind


def _names(kind: FieldType[Any], version: int) -> bool:
    if isinstance(kind, StructType):
        return any(each.kind is string or each.kind.name == "uuid" for each in kind.schema.fields_at(version))
    return kind is string


def _has_records(kind: FieldType[Any], version: int) -> bool:
    return isinstance(kind, StructType) and any(each.kind is record_data for each in kind.schema.fields_at(version))


class Body:
    """Encodes the body of one case. `topic_id` is that of the known topic; `items_max` bounds the
    list, `size_max` the bytes.
    """

    def __init__(
        self, cls: type[Any], version: int, case: Case, *, size_max: int, items_max: int | None = None, topic_id: bytes
    ) -> None:
        schema = message_schema_of(cls)
        self.version = version
        self.flexible = version in schema.flexible
        self.case = case
        self.size_max = size_max
        self.items_max = items_max
        self.topic_id = topic_id
        self.schema = schema

    def bytes(self) -> bytes:
        if self.case.mode == TAGS:
            return self._struct(self.schema, None, tags=self._many_tags())
        return self._struct(self.schema, self.case.path)

    # --- values

    def _struct(
        self, schema: Schema, path: tuple[str, ...] | None, *, inner: bool = False, tags: bytes = b"\0"
    ) -> bytes:
        out = b"".join(self._field(each, path, inner) for each in schema.fields_at(self.version))
        if not self.flexible:
            return out
        tagged = [each for each in schema.tagged_at(self.version) if path and each.name == path[0]]
        if tagged:
            value = self._field(tagged[0], path, inner)
            tags = b"\1" + _uvarint(tagged[0].tag or 0) + _uvarint(len(value)) + value
        return out + tags

    def _field(self, each: Field, path: tuple[str, ...] | None, inner: bool) -> bytes:
        compact = self.flexible and each.compact
        rest = path[1:] if path and path[0] == each.name else None
        if isinstance(each.kind, ArrayType):
            if rest is None:
                return self._null(compact) if self.version in each.nullable else self._length(0, compact, ">i")
            if rest:
                return self._length(1, compact, ">i") + self._value(each, each.kind.of, rest, inner)
            return self._filled(each, each.kind.of, compact)
        if isinstance(each.kind, StructType) and self.version in each.nullable and rest is None:
            return b"\xff"
        present = b"\1" if isinstance(each.kind, StructType) and self.version in each.nullable else b""
        return present + self._value(each, each.kind, rest, inner)

    def _value(self, each: Field, kind: FieldType[Any], path: tuple[str, ...] | None, inner: bool) -> bytes:
        if isinstance(kind, StructType):
            return self._struct(kind.schema, path, inner=inner)
        compact = self.flexible and each.compact
        if isinstance(kind, FixedSizeType):
            if kind.name == "uuid":
                return self._id(inner)
            return struct.pack(">" + kind.code, NUMBERS.get(each.name, kind.zero))
        assert isinstance(kind, LengthPrefixedType)
        if kind is record_data and inner and self.case.mode == KNOWN:
            return self._length(len(BATCH), compact, ">i") + BATCH
        if kind is record_data:
            return self._null(compact) if self.version in each.nullable else self._length(0, compact, ">i")
        if kind is not string:
            return self._length(0, compact, ">i")
        if inner and self.case.mode == DISTINCT:
            text = MARK
        elif inner and self.case.mode == SAME:
            text = b""
        elif inner and self.case.mode == LONG:
            text = b"n" * 32767
        else:
            text = NAMES.get(each.name, "").encode()
        if not text and kind is each.kind and self.version in each.nullable:
            return self._null(compact, ">h")
        return self._length(len(text), compact, ">h") + text

    def _id(self, inner: bool) -> bytes:
        if inner and self.case.mode == DISTINCT:
            return MARK + bytes(10)
        return self.topic_id if self.case.mode == KNOWN or not inner else bytes(16)

    # --- lists

    def _filled(self, each: Field, kind: FieldType[Any], compact: bool) -> bytes:
        entry = self._value(each, kind, self._inner_path(kind), True)
        room = self.size_max - 256
        count = max(1, room // len(entry))
        if self.items_max is not None:
            count = min(count, max(1, self.items_max // self._items_of(kind)))
        if self.case.mode == DISTINCT and MARK in entry:  # type: ignore[attr-defined]
            parts = entry.split(MARK)  # type: ignore[attr-defined]
            entries = b"".join([number.join(parts) for number in numbers(count)])
        else:
            entries = entry * count
        return self._length(count, compact, ">i") + entries

    def _inner_path(self, kind: FieldType[Any]) -> tuple[str, ...] | None:
        """Encode an entry whose first list has one entry too, which covers nesting."""
        if not isinstance(kind, StructType):
            return None
        first = next((one for one in kind.schema.fields_at(self.version) if isinstance(one.kind, ArrayType)), None)
        return None if first is None or self.case.mode == SAME else (first.name, "")

    def _items_of(self, kind: FieldType[Any]) -> int:
        return 1 + (self._inner_path(kind) is not None)

    def _many_tags(self) -> bytes:
        count = (self.size_max - 256) // 2
        if self.items_max is not None:
            count = min(count, self.items_max)
        return _uvarint(count) + b"\x7f\0" * count

    # --- lengths

    def _length(self, size: int, compact: bool, code: str) -> bytes:
        return _uvarint(size + 1) if compact else struct.pack(code, size)

    def _null(self, compact: bool, code: str = ">i") -> bytes:
        return b"\0" if compact else struct.pack(code, -1)


def numbers(count: int) -> Iterator[bytes]:
    """Return the numbers below `count`, each in as many characters as `MARK` has."""
    return (bytes(digits) for digits in itertools.islice(itertools.product(DIGITS, repeat=len(MARK)), count))


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
