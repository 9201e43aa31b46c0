"""The headers that a test expects of records, and which records have them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kqueue.base.text import short_repr
from kqueue.embedded.inspection.record_appender import Bytes, raw_headers

Pairs = tuple[tuple[str, bytes | None], ...]
OneRecord: TypeAlias = Mapping[str, Bytes] | Iterable[tuple[str, Bytes]]
GivenHeaders: TypeAlias = OneRecord | Iterable[OneRecord | None]
"""Of all records, or one entry for each: a dict, a list of pairs, or None for any headers."""
EXPECTED = "headers: expected a dict or a list of (name, value) pairs, or a list of one of them for each record"


class ExpectedHeaders(NamedTuple):
    """The headers that one record must have. `exactly`: in this order and no others; otherwise it
    may have more.
    """

    pairs: Pairs = ()
    exactly: bool = False

    def __repr__(self) -> str:
        return shown_headers(self.pairs)

    def fit(self, headers: Pairs) -> bool:
        """Return whether a record with `headers` has what is expected."""
        return headers == self.pairs if self.exactly else set(self.pairs) <= set(headers)


def shown_headers(pairs: Pairs) -> str:
    """Return the text of headers: a dict, or a list of pairs if a name is repeated."""
    return repr(dict(pairs)) if len(dict(pairs)) == len(pairs) else repr(list(pairs))


def expected_headers(headers: GivenHeaders, count: int | None) -> list[ExpectedHeaders]:
    """Return what each of `count` records must have.

    Args: count: None: as many as `headers` has entries.
    Raises: TypeError: another form. ValueError: another number of entries than `count`, or no
        number at all.
    """
    if isinstance(headers, Mapping):
        return _repeated(ExpectedHeaders(raw_headers(headers)), count)
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise TypeError(f"{EXPECTED}, found {short_repr(headers)}")
    entries: list[Any] = list(headers)
    if all(_is_pair(entry) for entry in entries) and not (count is None and not entries):
        return _repeated(ExpectedHeaders(raw_headers(entries), exactly=True), count)
    each = [_of_record(entry) for entry in entries]
    if count is not None and len(each) != count:
        raise ValueError(f"headers: {len(each)} for {count} records: expected one for each, or one for all")
    return each


def matched(
    expected: Sequence[tuple[Hashable, ExpectedHeaders]], records: Sequence[tuple[Hashable, Pairs]], *, ordered: bool
) -> tuple[list[Hashable], list[Hashable]]:
    """Return a token for each expected item and each record, which are equal where a record has
    what an item expects. Each item stands for one record.

    Args:
        expected, records: what must be equal, and the headers.
        ordered: match records in their order, those at the same place first.
    """
    tokens: list[Hashable] = [("expected", *item) for item in expected]
    matches: list[Hashable] = [("record", *record) for record in records]
    pairs = _in_order(expected, records) if ordered else _in_any_order(expected, records)
    for item, record in pairs:
        matches[record] = tokens[item]
    return tokens, matches


def _in_order(
    expected: Sequence[tuple[Hashable, ExpectedHeaders]], records: Sequence[tuple[Hashable, Pairs]]
) -> Iterable[tuple[int, int]]:
    if len(expected) == len(records) and all(map(_fit, expected, records)):
        return [(number, number) for number in range(len(records))]
    pairs, next_item = [], 0
    for record in range(len(records)):
        if next_item < len(expected) and _fit(expected[next_item], records[record]):
            pairs.append((next_item, record))
            next_item += 1
    if next_item == len(expected):
        return pairs
    # the items do not all occur in their order: for the difference, each record is one that fits
    places: list[tuple[int, int]] = []
    for number, record_item in enumerate(records):
        near = [number] if number < len(expected) else []
        item = next((one for one in (*near, *range(len(expected))) if _fit(expected[one], record_item)), None)
        if item is not None:
            places.append((item, number))
    return places


def _in_any_order(
    expected: Sequence[tuple[Hashable, ExpectedHeaders]], records: Sequence[tuple[Hashable, Pairs]]
) -> Iterable[tuple[int, int]]:
    """Match as many items as possible, each to another record, by augmenting paths."""
    by_base: dict[Hashable, list[int]] = {}
    for number, (base, _) in enumerate(records):
        by_base.setdefault(base, []).append(number)
    fitting = [
        [number for number in by_base.get(base, ()) if headers.fit(records[number][1])] for base, headers in expected
    ]
    item_of: dict[int, int] = {}
    for start in range(len(expected)):
        came_from: dict[int, int] = {}  # record -> the item that would take it
        queue = deque([start])
        while queue:
            item = queue.popleft()
            free = None
            for record in fitting[item]:
                if record not in came_from:
                    came_from[record] = item
                    if record not in item_of:
                        free = record
                        break
                    queue.append(item_of[record])
            if free is not None:
                _take(free, start, came_from, item_of)
                break
    return [(item, record) for record, item in item_of.items()]


def _take(record: int, start: int, came_from: dict[int, int], item_of: dict[int, int]) -> None:
    """Give `record` to the item that it was reached from, whose former record goes to the one
    before, back to `start`.
    """
    former = {item: taken for taken, item in item_of.items()}
    while True:
        item = came_from[record]
        item_of[record] = item
        if item == start:
            return
        record = former[item]


def _fit(item: tuple[Hashable, ExpectedHeaders], record: tuple[Hashable, Pairs]) -> bool:
    return item[0] == record[0] and item[1].fit(record[1])


def _repeated(headers: ExpectedHeaders, count: int | None) -> list[ExpectedHeaders]:
    if count is None:
        raise ValueError("headers: how many records must have them? give values=, keys= or count= too")
    return [headers] * count


def _of_record(entry: Any) -> ExpectedHeaders:
    if entry is None:
        return ExpectedHeaders()
    if not isinstance(entry, (Mapping, list, tuple)):
        raise TypeError(f"{EXPECTED}, found {short_repr(entry)} in it")
    return ExpectedHeaders(raw_headers(entry), exactly=not isinstance(entry, Mapping))


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and len(entry) == 2 and isinstance(entry[0], str)
