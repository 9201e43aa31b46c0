"""A record as a form gives it: texts, and how each is to be read."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kqueue.console.messages.json_layout import parse_json

INPUT_FORMS: Mapping[str, str] = {"text": "text", "json": "JSON", "hex": "hex", "base64": "base64", "null": "null"}
"""How a text becomes bytes, with the names on pages; "null" has none."""
HEADERS_MAX = 100
TIMESTAMP_MAX = 2**63 - 1
_HEX_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2})*")


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to produce.

    Attributes:
        key, value: None: null; a null value deletes its key from a compacted topic.
        partition: None: by the key.
        timestamp_ms: None: the time of sending.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def record_of(fields: Mapping[str, str]) -> NewRecord:
    """Return the record of a form with the fields key, key_form, value, value_form, headers (a line
    ``name=text`` for each; one without ``=`` is null), partition and timestamp ("": not given).

    Raises: ValueError: names the field.
    """
    return NewRecord(
        bytes_of(fields.get("key", ""), fields.get("key_form", "text"), "key"),
        bytes_of(fields.get("value", ""), fields.get("value_form", "text"), "value"),
        _headers(fields.get("headers", "")),
        _number(fields.get("partition", ""), "partition", 2**31 - 1),
        _number(fields.get("timestamp", ""), "timestamp", TIMESTAMP_MAX),
    )


def bytes_of(text: str, form: str, field: str) -> bytes | None:
    """Return the bytes that a text stands for. Raises: ValueError."""
    if form not in INPUT_FORMS:
        raise ValueError(f"{field}: expected one of the forms {', '.join(INPUT_FORMS)}")
    if form == "null":
        if text.strip():
            raise ValueError(f"{field}: it is null, and has a text: choose another form, or clear the text")
        return None
    if form == "text":
        # browsers send the line ends of a text area as CR LF
        return _encoded(text.replace("\r\n", "\n"), field)
    readers: Mapping[str, Callable[[str, str], bytes]] = {"json": _json, "hex": _hex, "base64": _base64}
    return readers[form](text, field)


def _json(text: str, field: str) -> bytes:
    try:
        parse_json(text)
    except ValueError as error:
        raise ValueError(f"{field}: this is no JSON: {error}") from None
    return _encoded(text.replace("\r\n", "\n"), field)


def _hex(text: str, field: str) -> bytes:
    digits = re.sub(r"[\s:]", "", text)
    if not _HEX_PAIRS.fullmatch(digits):
        raise ValueError(f"{field}: this is no hex: expected pairs of the digits 0 to 9 and a to f")
    return bytes.fromhex(digits)


def _base64(text: str, field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{field}: this is no base64: {error}") from None


def _encoded(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{field}: it has half of a surrogate pair at character {error.start}") from None


def _headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    headers: list[tuple[str, bytes | None]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        _encoded(name, "headers")
        headers.append((name.strip(), _encoded(value, "headers") if equals else None))
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"headers: expected at most {HEADERS_MAX} lines")
    return tuple(headers)


def _number(text: str, field: str, most: int) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > most:
        raise ValueError(f"{field}: expected a whole number from 0 to {most}, or nothing")
    return int(text)
