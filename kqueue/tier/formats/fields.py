"""Reads the fields of a JSON object that a tier holds; anything unexpected is `TierCorrupt`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.tier.errors import TierCorrupt

T = TypeVar("T")
_CHECKSUM = re.compile(r"[0-9a-f]{8}\Z", re.ASCII)
OFFSET_MAX = 2**63 - 1
EPOCH_MAX = 2**31 - 1


class Fields:
    """The fields of one JSON object. Args: name: of the object, for messages."""

    __slots__ = ("_name", "_values")

    def __init__(self, values: object, name: str) -> None:
        """Raises TierCorrupt: `values` is no JSON object."""
        if not isinstance(values, dict):
            raise TierCorrupt(f"{name}: expected a JSON object, found {type(values).__name__}")
        self._values: dict[str, Any] = values
        self._name = name

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def number(self, key: str, *, minimum: int = 0, maximum: int = OFFSET_MAX) -> int:
        """Return an integer within the bounds."""
        value = self._values.get(key)
        if type(value) is not int or not minimum <= value <= maximum:
            raise self.error(key, f"a number from {minimum} to {maximum}")
        return value

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._values.get(key)
        if not isinstance(value, str):
            raise self.error(key, "a string")
        return value

    def hexadecimal(self, key: str) -> int:
        """Return a checksum of eight hexadecimal digits."""
        text = self.text(key)
        if _CHECKSUM.match(text) is None:
            raise self.error(key, "eight hexadecimal digits")
        return int(text, 16)

    def items(self, key: str, item: Callable[[object], T], *, maximum: int) -> list[T]:
        """Return an array of at most `maximum` items, each read by `item`."""
        value = self._values.get(key)
        if not isinstance(value, list) or len(value) > maximum:
            raise self.error(key, f"an array of at most {maximum} items")
        return [item(each) for each in value]

    def numbers(self, key: str, count: int) -> tuple[int, ...]:
        """Return an array of exactly `count` offsets or sizes."""
        value = self._values.get(key)
        if not (isinstance(value, list) and len(value) == count and all(map(_is_offset, value))):
            raise self.error(key, f"{count} numbers of 0 or more")
        return tuple(value)

    def epochs(self, key: str, *, maximum: int) -> tuple[tuple[int, int], ...]:
        """Return an array of leader epochs, each with its first offset."""
        value = self._values.get(key)
        if not (isinstance(value, list) and len(value) <= maximum and all(map(_is_epoch, value))):
            raise self.error(key, f"at most {maximum} pairs of a leader epoch and an offset")
        return tuple((epoch, offset) for epoch, offset in value)

    def texts(self, key: str, *, maximum: int) -> dict[str, str]:
        """Return an object of at most `maximum` strings."""
        value = self._values.get(key)
        if not (isinstance(value, dict) and len(value) <= maximum and all(type(v) is str for v in value.values())):
            raise self.error(key, f"an object of at most {maximum} strings")
        return dict(value)

    def error(self, key: str, expected: str) -> TierCorrupt:
        """Return the error of a field."""
        found = repr(self._values.get(key))
        return TierCorrupt(f"{self._name}: expected {expected} as {key!r}, found {found[:60]}")


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= OFFSET_MAX


def _is_epoch(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_offset, value)) and value[0] <= EPOCH_MAX
