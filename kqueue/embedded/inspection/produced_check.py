"""Checks whether a topic holds the records that a test expects, and formats the difference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, Protocol

from kqueue.base.text import counted, short_repr
from kqueue.embedded.argument_checks import check_kind, check_list
from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.expected_headers import (
    ExpectedHeaders,
    GivenHeaders,
    expected_headers,
    matched,
    shown_headers,
)
from kqueue.embedded.inspection.record_appender import raw, raw_value
from kqueue.embedded.inspection.records import Record, shown

LINES_MAX = 30
CONTEXT_LINES = 2
COMPARED_MAX = 1_000_000  # pairs of records; a larger difference is not searched line by line
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ExpectedRecords:
    """The records that a test expects: `items`, compared with `item_of` of each record, or only a
    `count`.

    `labels`: what the parts of an item are: key, value. `headers`: of each item; None: they are not
    compared. `ordered` None: the number of partitions decides.
    """

    items: list[tuple[Any, ...]] | None
    labels: tuple[str, ...]
    item_of: Callable[[Record], tuple[Any, ...]]
    headers: list[ExpectedHeaders] | None
    count: int
    ordered: bool | None
    exactly: bool

    @classmethod
    def of(
        cls,
        values: Iterable[Any] | None,
        *,
        keys: Iterable[bytes | str | None] | None = None,
        headers: GivenHeaders | None = None,
        count: int | None = None,
        decode: Callable[[bytes], Any] | None = None,
        ordered: bool | None = None,
        exactly: bool = True,
    ) -> ExpectedRecords:
        """Build from the arguments of `Broker.assert_produced`. Raises ValueError, TypeError."""
        for name, given in (("values", values), ("keys", keys)):
            if given is not None:
                check_list(name, given, "a list, one entry for each record")
        if count is not None:
            check_kind("count", count, int, "a number of records")
        if decode is not None and not callable(decode):
            raise TypeError(f"decode={short_repr(decode)}: expected a function of the bytes of a value")
        if values is None and keys is None and headers is None and count is None:
            raise ValueError("say what is expected: values=, keys=, headers= or several of them, or count= alone")
        if (values is not None or keys is not None) and count is not None:
            raise ValueError("count= is given alone, or with headers= of all records: values= and keys= have a number")
        columns: dict[str, list[Any]] = {}
        if keys is not None:
            columns["key"] = [raw(one, "keys") for one in keys]
        value_of = _value_of(decode)
        if values is not None:
            values = list(values)
            if decode is None and any(isinstance(one, (Mapping, list)) for one in values):
                value_of = _json_value_of
            columns["value"] = [_expected_value(one, decode, value_of) for one in values]
        sizes = [len(column) for column in columns.values()]
        if len(set(sizes)) > 1:
            raise ValueError(f"{sizes[0]} keys for {sizes[1]} values: expected one for each")
        expected_number = sizes[0] if sizes else count
        each = None if headers is None else expected_headers(headers, expected_number)
        if not columns and each is None:
            assert count is not None
            return cls(None, (), lambda record: (), None, count, ordered, exactly)
        number = len(each) if each is not None else sizes[0]
        items: list[tuple[Any, ...]] = list(zip(*columns.values(), strict=True)) if columns else [()] * number
        parts: dict[str, Callable[[Record], Any]] = {"key": lambda record: record.key, "value": value_of}

        def item_of(record: Record) -> tuple[Any, ...]:
            return tuple(parts[label](record) for label in columns)

        return cls(items, tuple(columns), item_of, each, number, ordered, exactly)


def _value_of(decode: Callable[[bytes], Any] | None) -> Callable[[Record], Any]:
    def value_of(record: Record) -> Any:
        return decode(record.value) if decode is not None and record.value is not None else record.value

    return value_of


def _json_value_of(record: Record) -> Any:
    return _from_json(record.value)


def _from_json(value: bytes | None) -> Any:
    """Return the dict or list that a value is in JSON; any other value as it is."""
    try:
        parsed = None if value is None else json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, (dict, list)) else value


def _expected_value(value: Any, decode: Callable[[bytes], Any] | None, value_of: Callable[[Record], Any]) -> Any:
    """Return an expected value in the form to which records are converted."""
    if decode is not None:
        return value
    if value_of is not _json_value_of:
        return raw(value)
    return _from_json(raw_value(value))


class CheckedTopic(Protocol):
    """The part of a topic that is read; see `Topic`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        ...

    @property
    def end_offsets(self) -> dict[int, int]:
        """Partition -> the offset after the last record."""
        ...

    def records(self, partition: int | None = None, *, read_committed: bool = True) -> list[Record]:
        """Return the records of one partition, or of all."""
        ...


class ProducedCheck:
    """Compares a topic with the expected records. `records`: those that were read last.

    Args: find: returns the topic. Raises NoSuchName: why that is not possible now.
    """

    def __init__(
        self,
        find: Callable[[], CheckedTopic],
        expected: ExpectedRecords,
        partition: int | None,
        *,
        read_committed: bool,
    ) -> None:
        self.records: list[Record] = []
        self._find = find
        self._expected = expected
        self._partition = partition
        self._read_committed = read_committed
        self._seen: dict[int, int] | None = None
        self._problem: str | None = None

    def look(self) -> str | None:
        """Return the present difference, of several lines; None: there is none."""
        try:
            topic = self._find()
        except NoSuchName as error:
            return str(error)
        ends = topic.end_offsets
        if ends != self._seen:  # else nothing was appended, and the records need not be read again
            expected, partition = self._expected, self._partition
            self.records = topic.records(partition, read_committed=self._read_committed)
            problem = difference(
                _place(topic, partition), self.records, expected, ordered=_is_ordered(topic, partition, expected)
            )
            self._problem = problem if problem is None else problem + self._left_out(topic)
            self._seen = ends
        return self._problem

    def _left_out(self, topic: CheckedTopic) -> str:
        """Return a line about the records that are not compared, if there are any."""
        if not self._read_committed:
            return ""
        count = len(topic.records(self._partition, read_committed=False)) - len(self.records)
        return (
            f"\n      ({counted(count, 'record')} of open or aborted transactions left out; "
            "read_committed=False compares them too)"
            if count > 0
            else ""
        )


def _place(topic: CheckedTopic, partition: int | None) -> str:
    return topic.name if partition is None else f"{topic.name}-{partition}"


def _is_ordered(topic: CheckedTopic, partition: int | None, expected: ExpectedRecords) -> bool:
    one_line = partition is not None or topic.partitions == 1
    if expected.ordered and not one_line:
        raise ValueError(
            f"{topic.name} has {topic.partitions} partitions, which have no order among them: name a partition"
        )
    return one_line if expected.ordered is None else expected.ordered


def difference(place: str, records: list[Record], expected: ExpectedRecords, *, ordered: bool) -> str | None:
    """Return the difference, of several lines; None: there is none."""
    if expected.items is None:
        right = len(records) == expected.count if expected.exactly else len(records) >= expected.count
        return (
            None
            if right
            else "\n".join([_head(place, records, expected), *_cut([f"      {one!r}" for one in records])])
        )
    expected_items = [_frozen(item) for item in expected.items]
    actual = [_frozen(expected.item_of(record)) for record in records]
    if expected.headers is not None:
        expected_items, actual = matched(
            list(zip(expected_items, expected.headers, strict=True)),
            [(item, record.headers) for item, record in zip(actual, records, strict=True)],
            ordered=ordered,
        )
    if _is_right(expected_items, actual, ordered=ordered, exactly=expected.exactly):
        return None
    lines = (
        _ordered_lines(records, expected, expected_items, actual)
        if ordered
        else _counted_lines(records, expected, expected_items, actual)
    )
    missing = sum((Counter(expected_items) - Counter(actual)).values())
    extra = sum((Counter(actual) - Counter(expected_items)).values()) if expected.exactly else 0
    changed = [f"{missing} missing"] * (missing > 0) + [f"{extra} too many"] * (extra > 0) or ["in another order"]
    return "\n".join([f"{_head(place, records, expected)}: {', '.join(changed)}", *_cut(lines)])


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LINES_MAX else [*lines[:LINES_MAX], f"      ... and {len(lines) - LINES_MAX} more"]


def _head(place: str, records: list[Record], expected: ExpectedRecords) -> str:
    least = "" if expected.exactly else "at least "
    return f"{place} has {len(records)} record{'s' * (len(records) != 1)}, expected {least}{expected.count}"


def _is_right(expected_items: list[Hashable], actual: list[Hashable], *, ordered: bool, exactly: bool) -> bool:
    if ordered and exactly:
        return expected_items == actual
    if ordered:
        remaining = iter(actual)
        return all(item in remaining for item in expected_items)  # `in` consumes the iterator up to the match
    missing = Counter(expected_items) - Counter(actual)
    return not missing and (not exactly or len(expected_items) == len(actual))


def _counted_lines(
    records: list[Record], expected: ExpectedRecords, expected_items: list[Hashable], actual: list[Hashable]
) -> list[str]:
    """Format an unordered difference: missing records, then extra ones."""
    lines = []
    missing = Counter(expected_items) - Counter(actual)
    for number, frozen in enumerate(expected_items):
        if missing[frozen] > 0:
            missing[frozen] -= 1
            lines.append(("-", MISSING, _expected_text(expected, number)))
    room = Counter(expected_items)
    for record, frozen in zip(records, actual, strict=True):
        if room[frozen] > 0:
            room[frozen] -= 1
        elif expected.exactly or lines:
            lines.append(("+", record.where, _record_text(expected, record)))
    return _aligned(lines)


def _ordered_lines(
    records: list[Record], expected: ExpectedRecords, expected_items: list[Hashable], actual: list[Hashable]
) -> list[str]:
    """Format an ordered difference as a diff, with context."""
    begin = _common(expected_items, actual)
    tail = _common(expected_items[begin:][::-1], actual[begin:][::-1])
    expected_end, actual_end = len(expected_items) - tail, len(actual) - tail

    def actual_lines(start: int, end: int, sign: str = " ") -> list[tuple[str, str, str]]:
        return [(sign, record.where, _record_text(expected, record)) for record in records[start:end]]

    if (expected_end - begin) * (actual_end - begin) > COMPARED_MAX:
        first = [("-", "expected", _expected_text(expected, begin)), *actual_lines(begin, begin + 1, "+")]
        return [f"      ... {begin} as expected", *_aligned(first), "      ... and others"]
    lines = actual_lines(0, begin)
    matcher = SequenceMatcher(None, expected_items[begin:expected_end], actual[begin:actual_end], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            lines += [("-", MISSING, _expected_text(expected, number)) for number in range(begin + a, begin + b)]
        lines += actual_lines(begin + c, begin + d, "+" if kind != "equal" and expected.exactly else " ")
    return _folded(_aligned(lines + actual_lines(actual_end, len(actual))))


def _common(one: list[Hashable], other: list[Hashable]) -> int:
    """Return the length of the common prefix."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _aligned(lines: list[tuple[str, str, str]]) -> list[str]:
    width = max((len(where) for _, where, _ in lines), default=0)
    return [f"    {sign} {where:{width}}  {text}" for sign, where, text in lines]


def _expected_text(expected: ExpectedRecords, number: int) -> str:
    assert expected.items is not None
    headers = None if expected.headers is None else repr(expected.headers[number])
    return _item_text(expected.labels, expected.items[number], headers)


def _record_text(expected: ExpectedRecords, record: Record) -> str:
    headers = None if expected.headers is None else shown_headers(record.headers)
    return _item_text(expected.labels, expected.item_of(record), headers)


def _item_text(labels: Sequence[str], item: tuple[Any, ...], headers: str | None) -> str:
    """Return the text of an item; with one part, of that alone."""
    texts = [f"{label} {shown(part)}" for label, part in zip(labels, item, strict=True)]
    if headers is not None:
        texts.append(f"headers {headers}")
    return ", ".join(texts) if len(texts) > 1 or not item else shown(item[0])


def _folded(lines: list[str]) -> list[str]:
    """Keep only the lines near a difference."""
    changed = [number for number, line in enumerate(lines) if line[4] != " "]
    near = sorted(
        {
            one
            for number in changed
            for one in range(number - CONTEXT_LINES, number + CONTEXT_LINES + 1)
            if 0 <= one < len(lines)
        }
    )
    folded: list[str] = []
    for before, number in pairwise([-1, *near]):
        if number > before + 1:
            folded.append(f"      ... {number - before - 1} as expected")
        folded.append(lines[number])
    if near and near[-1] < len(lines) - 1:
        folded.append(f"      ... {len(lines) - 1 - near[-1]} as expected")
    return folded


def _frozen(item: Any) -> Hashable:
    """Return a hashable value that is equal where `item` is; JSON has dicts and lists."""
    if isinstance(item, dict):
        return "dict", frozenset((key, _frozen(value)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        return type(item).__name__, tuple(map(_frozen, item))
    try:
        hash(item)
    except TypeError:
        return type(item).__name__, repr(item)
    return item  # type: ignore[no-any-return]
