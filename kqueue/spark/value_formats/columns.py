"""Arrow columns from decoded rows, and types as Spark names their parts. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import DEPTH_MAX, FIELDS_MAX, Decoded, shortened

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")
JSON_DEPTH_MAX = 4 * DEPTH_MAX
WRONG = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""Errors that pyarrow raises for values that do not fit a column."""


def list_of(item: pa.DataType) -> pa.DataType:
    """Return the type of lists, with the name that Spark has for their elements."""
    return pa.list_(pa.field("element", item))


def map_of(item: pa.DataType, key: pa.DataType | None = None) -> pa.DataType:
    """Return the type of maps; `key` None: of strings."""
    return pa.map_(pa.field("key", key or pa.string(), nullable=False), pa.field("value", item))


def in_microseconds(type: pa.DataType) -> pa.DataType:
    """Return the type in which all timestamps have the unit of Spark."""
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", tz=type.tz)
    if pa.types.is_struct(type):
        return pa.struct([one.with_type(in_microseconds(one.type)) for one in type])
    if pa.types.is_map(type):
        return map_of(in_microseconds(type.item_type), type.key_type)
    if pa.types.is_list(type):
        return list_of(in_microseconds(type.value_type))
    return type


def refuse_deep(document: Any, what: str) -> None:
    """Raise SchemaRefused for JSON of more than `JSON_DEPTH_MAX` levels: compiled code that follows
    it has no bound on its stack.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > JSON_DEPTH_MAX:
            raise SchemaRefused(f"{what} is nested too deeply")
        parts = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [one for part in parts for one in part if isinstance(one, (dict, list))]


class Nesting:
    """Counts fields and levels while a schema is read. Raises SchemaRefused: too many."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._fields = 0
        self._within: list[str] = []

    def enter(self, name: str) -> None:
        """Go into a named type. Raises: SchemaRefused: it is in itself, or nested too deeply."""
        if name in self._within:
            raise SchemaRefused(f"{self._what}: {name} is in itself; Spark's columns can't be recursive")
        self._within.append(name)
        if len(self._within) > DEPTH_MAX:
            raise SchemaRefused(f"{self._what} is nested in more than {DEPTH_MAX} levels")

    def leave(self) -> None:
        """Leave the type that was entered last."""
        self._within.pop()

    def count(self, fields: Sequence[str], where: str) -> None:
        """Count the fields of a struct. Raises: SchemaRefused: two differ in case only."""
        self._fields += len(fields)
        if self._fields > FIELDS_MAX:
            raise SchemaRefused(f"{self._what} has more than {FIELDS_MAX:,} fields")
        seen: dict[str, str] = {}
        for name in fields:
            other = seen.setdefault(name.lower(), name)
            if other is not name:
                raise SchemaRefused(
                    f"{self._what}: {where} has the fields {other!r} and {name!r}, which Spark takes for one"
                )


def columns_of(rows: Sequence[Any], type: pa.StructType, errors: dict[int, str]) -> Decoded:
    """Return rows (dicts, None) as columns in microseconds; those that do not fit are errors too.

    Args:
        type: timestamps may have other units.
        errors: of rows that are None, by index.
    """
    final = in_microseconds(type)
    parts = list(_parts(rows, type, final, 0, errors))
    values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.array([], final)
    return Decoded(values, errors)


def _parts(rows: Sequence[Any], type: Any, final: Any, start: int, errors: dict[int, str]) -> Any:
    """Yield the arrays of rows. Halves of what raises are tried, down to the rows at fault."""
    try:
        array = pa.array(rows, type)
        yield array if final is type else array.cast(final)
        return
    except WRONG as error:
        if len(rows) == 1:
            errors[start] = shortened(error)
            yield pa.nulls(1, final)
            return
    half = len(rows) // 2
    yield from _parts(rows[:half], type, final, start, errors)
    yield from _parts(rows[half:], type, final, start + half, errors)
