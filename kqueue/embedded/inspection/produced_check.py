"""Whether a topic holds what a test expects, and a difference that can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.record_appender import raw
from kqueue.embedded.inspection.records import Record, shown
from kqueue.embedded.inspection.topics import Topic, Topics

LINES_MAX = 30
CONTEXT_LINES = 2
COMPARED_MAX = 1_000_000  # pairs of records: what a difference is looked for in, line by line
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ExpectedRecords:
    """What a test expects: `items` to be compared with what `item_of` makes of each record, or a
    `count` of records alone.

    `ordered` None: as the number of partitions decides.
    """

    items: list[Any] | None
    item_of: Callable[[Record], Any]
    count: int
    ordered: bool | None
    exactly: bool

    @classmethod
    def of(
        cls,
        values: Iterable[Any] | None,
        keys: Iterable[bytes | str | None] | None,
        count: int | None,
        decode: Callable[[bytes], Any] | None,
        *,
        ordered: bool | None,
        exactly: bool,
    ) -> ExpectedRecords:
        """From the arguments of `Broker.assert_produced`. Raises ValueError, TypeError."""
        if isinstance(values, (bytes, str)) or isinstance(keys, (bytes, str)):
            raise TypeError("values and keys are lists, one entry for each record")
        if (values is None and keys is None) is (count is None):
            raise ValueError("say what is expected: values=, keys= or both, or count= alone")
        if count is not None:
            return cls(None, lambda record: record.value, count, ordered, exactly)

        def value_of(record: Record) -> Any:
            return decode(record.value) if decode is not None and record.value is not None else record.value

        wanted_values = None if values is None else [one if decode is not None else raw(one) for one in values]
        wanted_keys = None if keys is None else [raw(one) for one in keys]
        if wanted_keys is None:
            assert wanted_values is not None
            return cls(wanted_values, value_of, len(wanted_values), ordered, exactly)
        if wanted_values is None:
            return cls(list(wanted_keys), lambda record: record.key, len(wanted_keys), ordered, exactly)
        if len(wanted_keys) != len(wanted_values):
            raise ValueError(f"{len(wanted_keys)} keys for {len(wanted_values)} values: expected one for each")
        pairs = list(zip(wanted_keys, wanted_values, strict=True))
        return cls(pairs, lambda record: (record.key, value_of(record)), len(pairs), ordered, exactly)


class ProducedCheck:
    """Compares a topic with what is expected; `found` are the records of the last look that read
    them.
    """

    def __init__(
        self, topics: Topics, name: str, expected: ExpectedRecords, partition: int | None, *, read_committed: bool
    ) -> None:
        self.found: list[Record] = []
        self._topics = topics
        self._name = name
        self._expected = expected
        self._partition = partition
        self._read_committed = read_committed
        self._seen: dict[int, int] | None = None
        self._problem: str | None = None

    def look(self) -> str | None:
        """What is wrong now, over some lines; None: nothing."""
        try:
            topic = self._topics[self._name]
        except NoSuchName as error:
            return str(error)
        ends = topic.end_offsets
        if ends != self._seen:  # else nothing new has come, and the records need not be read again
            expected, partition = self._expected, self._partition
            self.found = topic.records(partition, read_committed=self._read_committed)
            self._problem = difference(
                _place(topic, partition), self.found, expected, ordered=_is_ordered(topic, partition, expected)
            )
            self._seen = ends
        return self._problem


def _place(topic: Topic, partition: int | None) -> str:
    return topic.name if partition is None else f"{topic.name}-{partition}"


def _is_ordered(topic: Topic, partition: int | None, expected: ExpectedRecords) -> bool:
    one_line = partition is not None or topic.partitions == 1
    if expected.ordered and not one_line:
        raise ValueError(
            f"{topic.name} has {topic.partitions} partitions, which have no order among them: name a partition"
        )
    return one_line if expected.ordered is None else expected.ordered


def difference(place: str, records: list[Record], expected: ExpectedRecords, *, ordered: bool) -> str | None:
    """What is wrong, over some lines; None: nothing."""
    if expected.items is None:
        right = len(records) == expected.count if expected.exactly else len(records) >= expected.count
        return (
            None
            if right
            else "\n".join([_head(place, records, expected), *_cut([f"      {one!r}" for one in records])])
        )
    wanted = [_frozen(item) for item in expected.items]
    there = [_frozen(expected.item_of(record)) for record in records]
    if _is_right(wanted, there, ordered=ordered, exactly=expected.exactly):
        return None
    lines = (
        _ordered_lines(records, expected, wanted, there)
        if ordered
        else _counted_lines(records, expected, wanted, there)
    )
    missing = sum((Counter(wanted) - Counter(there)).values())
    extra = sum((Counter(there) - Counter(wanted)).values()) if expected.exactly else 0
    told = [f"{missing} missing"] * (missing > 0) + [f"{extra} too many"] * (extra > 0) or ["in another order"]
    return "\n".join([f"{_head(place, records, expected)}: {', '.join(told)}", *_cut(lines)])


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LINES_MAX else [*lines[:LINES_MAX], f"      ... and {len(lines) - LINES_MAX} more"]


def _head(place: str, records: list[Record], expected: ExpectedRecords) -> str:
    least = "" if expected.exactly else "at least "
    return f"{place} has {len(records)} record{'s' * (len(records) != 1)}, expected {least}{expected.count}"


def _is_right(wanted: list[Hashable], there: list[Hashable], *, ordered: bool, exactly: bool) -> bool:
    if ordered and exactly:
        return wanted == there
    if ordered:
        rest = iter(there)
        return all(item in rest for item in wanted)  # each takes what comes up to it
    missing = Counter(wanted) - Counter(there)
    return not missing and (not exactly or len(wanted) == len(there))


def _counted_lines(
    records: list[Record], expected: ExpectedRecords, wanted: list[Hashable], there: list[Hashable]
) -> list[str]:
    """Where order does not count: what is missing, then what is too many."""
    assert expected.items is not None
    lines = []
    missing = Counter(wanted) - Counter(there)
    for item, frozen in zip(expected.items, wanted, strict=True):
        if missing[frozen] > 0:
            missing[frozen] -= 1
            lines.append(("-", MISSING, item))
    room = Counter(wanted)
    for record, frozen in zip(records, there, strict=True):
        if room[frozen] > 0:
            room[frozen] -= 1
        elif expected.exactly or lines:
            lines.append(("+", record.where, expected.item_of(record)))
    return _aligned(lines)


def _ordered_lines(
    records: list[Record], expected: ExpectedRecords, wanted: list[Hashable], there: list[Hashable]
) -> list[str]:
    """Side by side, as a diff: what is as expected is shown near to what is not."""
    assert expected.items is not None
    begin = _common(wanted, there)
    tail = _common(wanted[begin:][::-1], there[begin:][::-1])
    wanted_end, there_end = len(wanted) - tail, len(there) - tail

    def there_lines(start: int, end: int, sign: str = " ") -> list[tuple[str, str, Any]]:
        return [(sign, record.where, expected.item_of(record)) for record in records[start:end]]

    if (wanted_end - begin) * (there_end - begin) > COMPARED_MAX:
        first = [("-", "expected", expected.items[begin]), *there_lines(begin, begin + 1, "+")]
        return [f"      ... {begin} as expected", *_aligned(first), "      ... and others"]
    lines = there_lines(0, begin)
    matcher = SequenceMatcher(None, wanted[begin:wanted_end], there[begin:there_end], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            lines += [("-", MISSING, item) for item in expected.items[begin + a : begin + b]]
        lines += there_lines(begin + c, begin + d, "+" if kind != "equal" and expected.exactly else " ")
    return _folded(_aligned(lines + there_lines(there_end, len(there))))


def _common(one: list[Hashable], other: list[Hashable]) -> int:
    """How many entries are the same from the beginning on."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _aligned(lines: list[tuple[str, str, Any]]) -> list[str]:
    width = max((len(where) for _, where, _ in lines), default=0)
    return [f"    {sign} {where:{width}}  {_item(item)}" for sign, where, item in lines]


def _item(item: Any) -> str:
    return (
        f"key {shown(item[0])}, value {shown(item[1])}" if isinstance(item, tuple) and len(item) == 2 else shown(item)
    )


def _folded(lines: list[str]) -> list[str]:
    """Only what is near to a difference."""
    told = [number for number, line in enumerate(lines) if line[4] != " "]
    near = sorted(
        {
            one
            for number in told
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
    """Something that is equal where `item` is, and can be counted: what JSON gives has dicts and
    lists in it.
    """
    if isinstance(item, dict):
        return "dict", frozenset((key, _frozen(value)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        return type(item).__name__, tuple(map(_frozen, item))
    try:
        hash(item)
    except TypeError:
        return type(item).__name__, repr(item)
    return item  # type: ignore[no-any-return]
