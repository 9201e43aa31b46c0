"""Records as JSON objects: `kqueue consume --format json` and `kqueue log export` write them, and
`kqueue produce --format json` and `Broker.load_records` read them.

An object has "value" or "key", and optionally "topic", "partition", "timestamp" (-1: none) and
"headers" (a list of pairs, or an object); other names are ignored, "offset" too. Bytes are a text
(UTF-8), null, or ``{"base64": "…"}`` for other bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kqueue.base.text import short_repr

NO_TIMESTAMP = -1
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


class JsonRecord(NamedTuple):
    """The fields of an object. None: it does not name them, or null."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    partition: int | None
    topic: Any


def read_record(line: str | bytes | Mapping[str, Any], *, has_documents: bool = False) -> JsonRecord:
    """Return the record of a line, or of its object.

    Args: has_documents: a "value" may be a list or another object, which stands for its JSON.
    Raises: ValueError: not such an object.
    """
    row: Any = line
    if isinstance(line, (str, bytes)):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(row, Mapping) or not row.keys() & {"key", "value"}:
        raise ValueError(f'expected an object with "value" or "key", found {short_repr(row)}')
    return JsonRecord(
        _bytes_of(row.get("key"), "key"),
        _value_of(row.get("value"), has_documents),
        _headers_of(row.get("headers")),
        _number(row.get("timestamp"), "timestamp", NO_TIMESTAMP, INT64_MAX),
        _number(row.get("partition"), "partition", 0, INT32_MAX),
        row.get("topic"),
    )


def document_bytes(value: Mapping[str, Any] | list[Any]) -> bytes:
    """Return the JSON of a dict or a list.

    Raises: TypeError: a value of another type within. ValueError: NaN or infinity within.
    """
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False).encode()


def json_of(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as a JSON value."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _value_of(value: Any, has_documents: bool) -> bytes | None:
    if has_documents and isinstance(value, (Mapping, list)) and not _is_encoded(value):
        return document_bytes(value)
    return _bytes_of(value, "value")


def _is_encoded(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {"base64"}


def _bytes_of(value: Any, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded(value, name)
    if _is_encoded(value) and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f'"{name}" is no base64: {error}') from None
    raise ValueError(f'"{name}" must be a text, null, or {{"base64": "…"}}, not {short_repr(value)}')


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f'"{name}" has half of a surrogate pair at character {error.start}') from None


def _headers_of(value: Any) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else [] if value is None else value
    headers = []
    for pair in pairs if isinstance(pairs, (list, tuple)) else [None]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f'"headers" must be a list of [name, value] pairs, or an object, not {short_repr(value)}')
        _encoded(pair[0], "headers")
        headers.append((pair[0], _bytes_of(pair[1], f"header {pair[0]}")))
    return tuple(headers)


def _number(value: Any, name: str, least: int, most: int) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most):
        raise ValueError(f'"{name}" must be a whole number from {least} to {most}, not {short_repr(value)}')
    return value
