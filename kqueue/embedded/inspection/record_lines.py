"""Records as lines of JSON (`records.json_records`), to fill topics with.

A "value" that is another object or a list stands for its JSON, so that lines can be written by
hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kqueue.base.text import short_repr
from kqueue.embedded.inspection.record_appender import NewRecord
from kqueue.embedded.inspection.records import Record
from kqueue.records.json_records import read_record

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
        raise TypeError(f"source={short_repr(source)}: expected a file, or a list of lines")
    return str(getattr(source, "name", "records")), iter(source)


def _record_line(line: str | bytes | Mapping[str, Any], topic: str | None) -> RecordLine:
    record = read_record(line, has_documents=True)
    named = topic if topic is not None else record.topic
    if not isinstance(named, str):
        raise ValueError('it names no topic: expected "topic" in it, or the argument topic=')
    return RecordLine(named, NewRecord(record.key, record.value, record.headers, record.timestamp_ms, record.partition))
