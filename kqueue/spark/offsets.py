"""Offsets as JSON, in the format of Spark's Kafka source. No pyspark.

{"orders":{"0":12,"1":-2}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError

LATEST = -1
EARLIEST = -2
OFFSET_KEYWORDS = {"earliest": EARLIEST, "latest": LATEST}
OFFSET_MAX = 2**63 - 1
PARTITION_MAX = 2**31 - 1
BEGIN = "@begin"
"""Annotation in the end offset of a first batch: the offset where that batch begins.

A topic cannot have this name.
"""
IDS = "@ids"
"""Annotation: topic ids, ``{"orders":"<22 characters>"}``. A recreated topic has another id."""
ANNOTATIONS = (BEGIN, IDS)

Offsets = dict[TopicPartition, int]
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """The beginning or end of a query, as an option states it. Exactly one value is not None.

    everywhere: EARLIEST or LATEST for all partitions. listed: an offset, EARLIEST or LATEST for
    each. time: ms since 1970, for all partitions. times: for each. `option`: the option's name.
    """

    option: str
    everywhere: int | None = None
    listed: Mapping[TopicPartition, int] | None = None
    time: int | None = None
    times: Mapping[TopicPartition, int] | None = None

    @property
    def is_fixed(self) -> bool:
        """Return whether it resolves to the same offsets each time, unless records are deleted."""
        if self.listed is not None:
            return LATEST not in self.listed.values()
        return self.everywhere == EARLIEST


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonObject:
    """Return offsets in the form of Spark's checkpoints, sorted: equal offsets are equal text."""
    document: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(partition)] = offset
    return document


def from_json(value: object, where: str) -> Offsets:
    """Return the offsets of parsed JSON, without `ANNOTATIONS`.

    Raises: OptionError: another form; the message names `where`.
    """
    if not isinstance(value, dict):
        raise OptionError(f'{where}: expected {{"topic":{{"partition":offset}}}}, found {_short(value)}')
    offsets: Offsets = {}
    for topic, parts in value.items():
        if topic in ANNOTATIONS:
            continue
        if not isinstance(parts, dict):
            raise OptionError(f'{where}: expected {{"partition":offset}} for topic {topic!r}, found {_short(parts)}')
        for partition, offset in parts.items():
            if not is_number(offset) or not EARLIEST <= offset <= OFFSET_MAX:
                raise OptionError(f"{where}: expected a whole number for {topic}-{partition}, found {_short(offset)}")
            offsets[TopicPartition(topic, _partition(partition, where))] = offset
    return offsets


def ids_of(value: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the topic ids in these offsets. Raises: OptionError: another form; names `where`."""
    ids = value.get(IDS, {})
    if not isinstance(ids, dict) or not all(isinstance(text, str) for text in ids.values()):
        raise OptionError(f'{where}: expected {{"topic":"id"}} in {IDS}, found {_short(ids)}')
    return ids


def plain(value: Mapping[str, Any]) -> JsonObject:
    """Return the offsets without `ANNOTATIONS`."""
    return {topic: parts for topic, parts in value.items() if topic not in ANNOTATIONS}


def parse_listed(text: str, option: str) -> Offsets:
    """Parse the offsets or timestamps of an option. Raises: OptionError."""
    return from_json(parse_json(text, option), option)


def parse_assigned(text: str, option: str) -> tuple[TopicPartition, ...]:
    """Parse the partitions of ``{"orders":[0,1]}``. Raises: OptionError."""
    value = parse_json(text, option)
    if not isinstance(value, dict) or not all(isinstance(parts, list) and parts for parts in value.values()):
        raise OptionError(f'{option}: expected {{"topic":[0,1]}}, found {_short(value)}')
    topic_partitions = [TopicPartition(topic, _index(part, option)) for topic, parts in value.items() for part in parts]
    if not topic_partitions:
        raise OptionError(f"{option}: no partition is named")
    return tuple(dict.fromkeys(topic_partitions))


def parse_json(text: str, option: str) -> object:
    """Parse JSON. Raises: OptionError: invalid JSON, or a duplicate name."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{option}: {_short(text)} is no JSON: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    items = dict(pairs)
    if len(items) != len(pairs):
        raise ValueError("a name stands in it twice")
    return items


def is_number(value: object) -> bool:
    """Return whether it is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _partition(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise OptionError(f"{where}: expected a partition's number, found {_short(text)}")
    return _index(int(text), where)


def _index(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PARTITION_MAX:
        raise OptionError(f"{where}: expected a partition's number, found {_short(value)}")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
