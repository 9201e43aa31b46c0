"""Records as text, one per line: `consume` writes it, `produce` reads it; JSON is lossless
(`records.json_records`).
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from kqueue.records.json_records import NO_TIMESTAMP, json_of, read_record

NULL = b"null"
TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


class RecordToSend(NamedTuple):
    """A record to send.

    `partition` None: the partitioner chooses. `timestamp_ms` None: the time of sending; -1: the
    record has none. A header's value may be None.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class ConsumedRecord(Protocol):
    """The fields of a consumed record that a formatter uses (kafka-python's ConsumerRecord)."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def parse_line(line: bytes, separator: bytes | None) -> RecordToSend:
    """Parse a line: the value, or key and value around the first `separator`.

    Raises: ValueError: the line has no separator.
    """
    if not separator:
        return RecordToSend(line)
    key, matched, value = line.partition(separator)
    if not matched:
        raise ValueError(f"no key separator {separator.decode(errors='replace')!r} in it")
    return RecordToSend(value, key)


def parse_json(line: bytes) -> RecordToSend:
    """Parse a JSON object; unknown keys are ignored. Raises ValueError: not such an object."""
    record = read_record(line)
    return RecordToSend(record.value, record.key, record.headers, record.partition, record.timestamp_ms)


def formatter(spec: str) -> Callable[[ConsumedRecord], bytes]:
    """Return the function that formats one record, line end included.

    `spec` is ``value``, ``json``, or a template such as ``{partition}:{offset} {key}={value}``.
    Raises ValueError: an unknown field, or a template without any.
    """
    if spec == "value":
        return lambda record: _raw(record.value) + b"\n"
    if spec == "json":
        return lambda record: json.dumps(as_json(record), ensure_ascii=False).encode() + b"\n"
    return _template(spec)


def as_json(record: ConsumedRecord) -> dict[str, Any]:
    """Return the fields of a record as JSON values."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": NO_TIMESTAMP if record.timestamp is None else record.timestamp,
        "timestamp_type": None if record.timestamp_type is None else TIMESTAMP_TYPES.get(record.timestamp_type),
        "key": json_of(record.key),
        "value": json_of(record.value),
        "headers": [[name, json_of(value)] for name, value in record.headers],
    }


def time_text(timestamp_ms: int | None) -> str:
    """Return milliseconds since 1970 as ISO text in UTC; ``-`` for a record without a timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> int:
    """Parse milliseconds since 1970, or ISO text (local time unless it names a zone).

    Raises: ValueError: neither.
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write milliseconds since 1970, or 2026-01-31T12:00:00 (with Z for UTC)"
        ) from None
    return round(moment.timestamp() * 1000)


_FIELDS: dict[str, Callable[[ConsumedRecord], bytes]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % (NO_TIMESTAMP if record.timestamp is None else record.timestamp),
    "time": lambda record: time_text(record.timestamp).encode(),
    "key": lambda record: _raw(record.key),
    "value": lambda record: _raw(record.value),
    "headers": lambda record: b",".join(name.encode() + b"=" + _raw(value) for name, value in record.headers),
}


def _template(spec: str) -> Callable[[ConsumedRecord], bytes]:
    for escape, character in ESCAPES.items():
        spec = spec.replace(escape, character)
    parts: list[bytes | Callable[[ConsumedRecord], bytes]] = []
    for text, field, format_spec, conversion in string.Formatter().parse(spec):
        parts.append(text.encode())
        if field is None:
            continue
        if field not in _FIELDS or format_spec or conversion:
            raise ValueError(f"there is no field {{{field}}}; there are {', '.join(f'{{{name}}}' for name in _FIELDS)}")
        parts.append(_FIELDS[field])
    if not any(callable(part) for part in parts):
        raise ValueError("a format is 'value', 'json' or a text with fields, such as '{key}={value}'")
    return lambda record: b"".join(part(record) if callable(part) else part for part in parts) + b"\n"


def _raw(data: bytes | None) -> bytes:
    return NULL if data is None else data
