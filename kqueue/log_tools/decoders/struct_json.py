"""Structs as JSON in the form that Kafka's tools print.

Names are in camel case, bytes in base64, ids in 22 characters; there are no blanks.
"""

from __future__ import annotations

import base64
import json
import re
from functools import lru_cache
from typing import Any

from kqueue.base.names import uuid_text
from kqueue.schema import FieldType, schema_of, uuid
from kqueue.schema.field_types import ArrayType, StructType

_ESCAPE = re.compile(r"\\u00[0-9a-f]{2}")
_PLAIN: dict[str, str] = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def struct_to_json(struct: object, version: int) -> dict[str, Any]:
    """Return a struct of this version as JSON values; tagged fields only if not at their default.

    Source: Kafka's JsonConverters.
    """
    values = {}
    for each in schema_of(type(struct)).fields:
        value = getattr(struct, each.name)
        is_default = value == each.default or (value == [] and each.default == ())  # of an array: a tuple
        if version not in each.versions or (version in each.tagged and is_default):
            continue
        values[camel_case(each.name)] = _value(each.kind, value, version)
    return values


def json_text(values: object) -> str:
    """Return JSON on one line, with Jackson's escapes."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPE.sub(lambda match: f"\\u00{match[0][-2:].upper()}", text) if "\\u00" in text else text


@lru_cache(maxsize=256)
def camel_case(name: str) -> str:
    """Return ``groupId`` for ``group_id``."""
    first, *rest = name.split("_")
    return _PLAIN.get(name) or first + "".join(map(str.capitalize, rest))


def _value(kind: FieldType[Any], value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [_value(kind.of, each, version) for each in value]
    if isinstance(kind, StructType):
        return struct_to_json(value, version)
    if kind is uuid:
        return uuid_text(value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value
