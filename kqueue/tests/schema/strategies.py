"""Hypothesis strategies drawn from schemas: any message at any version, and its values in plain
Python for comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from kqueue.schema import Field, schema_of
from kqueue.schema.field_types import ArrayType, FieldType, FixedSizeType, StructType, record_data, string

Narrow = Callable[[Field], "st.SearchStrategy[Any] | None"]
"""What another implementation can say in a field, where that is less than its kind allows."""

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_TEXTS = st.text(max_size=5) | st.sampled_from(["x" * 127, "é" * 100, "y" * 16400])
_BLOBS = st.binary(max_size=5) | st.sampled_from([bytes(126), bytes(127), bytes(16383), bytes(16384)])


def _anything(each: Field) -> st.SearchStrategy[Any] | None:
    return None


@cache
def messages(cls: type[Any], version: int, narrow: Narrow = _anything) -> st.SearchStrategy[Any]:
    """Objects of a message or struct class with the fields that this version has; all others keep
    their defaults.
    """
    schema = schema_of(cls)
    drawn = {each.name: _field(each, version, narrow) for each in schema.fields if version in each.versions}
    return st.builds(cls, **drawn)


def _field(each: Field, version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    values = narrow(each)
    if values is None:
        values = _kind(each.kind, version, narrow)
    if version in each.nullable:
        values = st.none() | values
    return values


def _kind(kind: FieldType[Any], version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    if isinstance(kind, FixedSizeType):
        return _fixed(kind)
    if isinstance(kind, StructType):
        return messages(kind.schema.cls, version, narrow)
    if isinstance(kind, ArrayType):
        return st.lists(_kind(kind.of, version, narrow), max_size=2)
    return _TEXTS if kind is string else _BLOBS


def _fixed(kind: FixedSizeType[Any]) -> st.SearchStrategy[Any]:
    if kind.code == "?":
        return st.booleans()
    if kind.code == "d":
        return st.floats(allow_nan=False)
    if kind.code == "16s":
        return st.binary(min_size=16, max_size=16)
    if kind.code == "H":
        return st.integers(0, 2**16 - 1)
    half = 2 ** (_BITS[kind.code] - 1)
    return st.integers(-half, half - 1)


def plain(message: Any, version: int) -> dict[str, Any]:
    """Return the fields of this version by name in wire order; structs are dicts."""
    fields = schema_of(type(message)).fields
    return {
        each.name: _plain(getattr(message, each.name), each.kind, version)
        for each in fields
        if version in each.versions
    }


def _plain(value: Any, kind: FieldType[Any], version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [_plain(item, kind.of, version) for item in value]
    if isinstance(kind, StructType):
        return plain(value, version)
    return bytes(value) if kind is record_data else value


def filled(cls: type[Any], version: int) -> Any:
    """An object with something in every field that this version has: one element in each list,
    nothing None.
    """
    schema = schema_of(cls)
    values = {each.name: _something(each.kind, version) for each in schema.fields if version in each.versions}
    return cls(**values)


def _something(kind: FieldType[Any], version: int) -> Any:
    if isinstance(kind, ArrayType):
        return [_something(kind.of, version)]
    if isinstance(kind, StructType):
        return filled(kind.schema.cls, version)
    if isinstance(kind, FixedSizeType):
        return {"?": True, "d": 1.5, "16s": b"0123456789abcdef"}.get(kind.code, 3)
    return "text" if kind is string else b"blob"
