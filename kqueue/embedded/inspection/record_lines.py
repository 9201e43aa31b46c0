"""Records as lines of JSON, to fill topics with: what `kqueue consume --format json` prints.

A line is an object with "value" or "key", and optionally "topic", "partition", "timestamp" and
"headers" (a list of pairs, or an object); other names are ignored, "offset" too. Bytes are a text
(UTF-8), null, or ``{"base64": "…"}``. A "value" that is another object or a list stands for its
JSON, so that lines can be written by hand.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kqueue.embedded.argument_checks import shown_argument
from kqueue.embedded.inspection.record_appender import NewRecord, raw_value
from kqueue.embedded.inspection.records import Record

RecordSource: TypeAlias = str | os.PathLike[str] | Iterable[str | bytes | Mapping[str, Any]]
"""A file of lines, or the lines, or their objects."""


class RecordLine(NamedTuple):
    """A record and the topic that it is for."""

    topic: str
    record: NewRecord


def read_record_lines(source: RecordSource, topic: str | None) -> list[RecordLine]:
    """Return the records of `source`.

    Args: topic: of all of them; None: each line names its own.
    Raises: OSError: the file can't be read. TypeError: `source` is none. ValueError: a line is no
        record; the message has its number.
    """
    name, lines = _lines_of(source)
    records = []
    for number, line in enumerate(lines, start=1):
        if isinstance(line, (str, bytes)) and not line.strip():
            continue
        try:
            records.append(_record_line(line, topic))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}, line {number}: {error}") from None
    return records


def partitions_of(lines: Iterable[RecordLine]) -> dict[str, int]:
    """Return topic -> the least number of partitions that has all that the lines name."""
    least: dict[str, int] = {}
    for line in lines:
        index = line.record.partition
        least[line.topic] = max(least.get(line.topic, 1), 1 if index is None else index + 1)
    return least


def load_lines(
    source: RecordSource,
    topic: str | None,
    ensure_topic: Callable[[str, int], None],
    append: Callable[[str, list[NewRecord]], list[Record]],
) -> list[Record]:
    """Append the records of lines, and return them in the order of the lines; see
    `EmbeddedNode.load_records`.

    Args:
        ensure_topic: creates a topic with at least so many partitions, unless it exists.
        append: appends records to a topic.
    """
    lines = read_record_lines(source, topic)
    for name, count in partitions_of(lines).items():
        ensure_topic(name, count)
    by_topic: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        by_topic.setdefault(line.topic, []).append(number)
    records: dict[int, Record] = {}
    for name, numbers in by_topic.items():
        appended = append(name, [lines[number].record for number in numbers])
        records.update(zip(numbers, appended, strict=True))
    return [records[number] for number in range(len(lines))]


def _lines_of(source: RecordSource) -> tuple[str, Iterator[Any]]:
    if isinstance(source, str) and (source.lstrip().startswith("{") or "\n" in source):
        raise TypeError("source: expected a file, or a list of lines, found the text of lines: use text.splitlines()")
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source), iter(Path(source).read_bytes().splitlines())
    if isinstance(source, (bytes, Mapping)) or not isinstance(source, Iterable):
        raise TypeError(f"source={shown_argument(source)}: expected a file, or a list of lines")
    return str(getattr(source, "name", "records")), iter(source)


def _record_line(line: Any, topic: str | None) -> RecordLine:
    if isinstance(line, (str, bytes)):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"this is not JSON: {error}") from None
    else:
        row = line
    if not isinstance(row, Mapping) or not row.keys() & {"key", "value"}:
        raise ValueError(f'expected an object with "value" or "key", found {shown_argument(row)}')
    named = topic if topic is not None else row.get("topic")
    if not isinstance(named, str):
        raise ValueError('it names no topic: expected "topic" in it, or the argument topic=')
    timestamp = _number(row.get("timestamp"), "timestamp", -1)
    record = NewRecord(
        _bytes_of(row.get("key"), "key"),
        _value_of(row.get("value")),
        _headers_of(row.get("headers")),
        timestamp,
        _number(row.get("partition"), "partition", 0),
    )
    return RecordLine(named, record)


def _value_of(value: Any) -> bytes | None:
    is_encoded = isinstance(value, Mapping) and set(value) == {"base64"}
    return raw_value(value) if isinstance(value, (Mapping, list)) and not is_encoded else _bytes_of(value, "value")


def _bytes_of(value: Any, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and set(value) == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f'"{name}" is no base64: {error}') from None
    raise ValueError(f'"{name}" must be a text, null, or {{"base64": "…"}}, not {shown_argument(value)}')


def _headers_of(value: Any) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value or []
    headers = []
    for pair in pairs if isinstance(pairs, (list, tuple)) else [None]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError('"headers" must be a list of [name, value] pairs, or an object')
        headers.append((pair[0], _bytes_of(pair[1], f"header {pair[0]}")))
    return tuple(headers)


def _number(value: Any, name: str, least: int) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise ValueError(f'"{name}" must be a whole number, {least} or more')
    return value
