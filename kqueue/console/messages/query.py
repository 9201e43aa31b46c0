"""What a reader of messages asks for, as the parameters of an address: a search is a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from kqueue.base.text import short_repr
from kqueue.console.messages.positions import PARTITIONS_MAX, parse_position

STARTS: Mapping[str, str] = {"newest": "newest", "oldest": "oldest", "offset": "offset", "time": "time"}
COUNTS = (10, 25, 50, 100)
_NUMBER_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """The parameters of a page of messages.

    Attributes:
        start: of `STARTS`. offset, time: the text that goes with these starts.
        partition: None: all, of a topic with more than `PARTITIONS_MAX` those from `first` on.
        key, text, header, path: see `SearchFilter`.
        form, key_form: see `value_view.FORMS`.
        committed: leave out records of open and aborted transactions.
        count: messages of a page.
        follow: whether the page renews itself.
        older, newer: a position, before or from which the page is; "": as `start` says.
    """

    start: str = "newest"
    offset: str = ""
    time: str = ""
    partition: int | None = None
    first: int = 0
    key: str = ""
    text: str = ""
    header: str = ""
    path: str = ""
    form: str = "auto"
    key_form: str = "auto"
    committed: bool = False
    count: int = 25
    follow: bool = False
    older: str = ""
    newer: str = ""

    @property
    def is_search(self) -> bool:
        """Whether not all messages are shown."""
        return bool(self.key or self.text or self.header or self.path.strip())

    def link(self, **changes: Any) -> str:
        """Return the address of the query with other parameters, relative to the page's path."""
        changed = replace(self, **changes)
        parameters = {
            name: ("1" if value is True else str(value))
            for name, default in _DEFAULTS.items()
            if (value := getattr(changed, name)) != default
        }
        return "?" + urlencode(parameters)

    def offsets(self) -> dict[int, int]:
        """Return the position of `older` or `newer`. Raises: ValueError: it is none."""
        return parse_position(self.older or self.newer)

    def partitions(self, existing: list[int]) -> list[int]:
        """Return the partitions of the page. Raises: ValueError: there is no such partition."""
        if self.partition is None:
            return [one for one in existing if one >= self.first][:PARTITIONS_MAX]
        if self.partition not in existing:
            raise ValueError(f"partition: expected one from 0 to {len(existing) - 1}")
        return [self.partition]


_DEFAULTS: dict[str, Any] = {name: getattr(MessageQuery(), name) for name in MessageQuery.__slots__}


def query_of(parameters: Mapping[str, str]) -> MessageQuery:
    """Return the query of an address; unknown parameters are ignored.

    Raises: ValueError: names the parameter whose value is wrong.
    """
    start = parameters.get("start", "newest")
    if start not in STARTS:
        raise ValueError(f"start: expected one of {', '.join(STARTS)}")
    count = _number(parameters, "count")
    partition = _number(parameters, "partition")
    return MessageQuery(
        start=start,
        offset=parameters.get("offset", "").strip(),
        time=parameters.get("time", "").strip(),
        partition=partition,
        first=_number(parameters, "first") or 0,
        key=parameters.get("key", ""),
        text=parameters.get("text", ""),
        header=parameters.get("header", ""),
        path=parameters.get("path", ""),
        form=parameters.get("form", "auto"),
        key_form=parameters.get("key_form", "auto"),
        committed="committed" in parameters,
        count=min(count, COUNTS[-1]) if count else MessageQuery().count,
        follow="follow" in parameters,
        older=parameters.get("older", ""),
        newer=parameters.get("newer", ""),
    )


def parse_offset(text: str) -> int:
    """Return an offset. Raises: ValueError."""
    if not text.isascii() or not text.isdecimal() or len(text) > _NUMBER_DIGITS_MAX:
        raise ValueError(f"offset: expected a whole number from 0 on, found {short_repr(text)}")
    return int(text)


def parse_time(text: str) -> int:
    """Return ms since 1970 of such a number, or of ISO text, in UTC unless it names a zone.

    Raises: ValueError.
    """
    if text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        time_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        if time_ms >= 0 and "-" in text:  # other forms of ISO are digits only
            return time_ms
        raise ValueError("before 1970")
    except (ValueError, OverflowError):
        raise ValueError(
            f"time: expected 2026-01-31T12:00 (UTC) or milliseconds since 1970, found {short_repr(text)}"
        ) from None


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise ValueError(f"{name}: expected a whole number, found {short_repr(text)}")
    return int(text)
