"""Ranges of versions in Kafka's notation: ``3+``, ``0-12``, ``8``, ``none``."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

VERSION_MAX = 32767  # a version is an int16 on the wire


class Versions(NamedTuple):
    """The versions from `low` to `high`, both included; empty if `low` > `high`."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == VERSION_MAX:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NO_VERSIONS = Versions(1, 0)


@cache
def parse_versions(text: str) -> Versions:
    """Return the range of a text ``3+``, ``0-12``, ``8`` or ``none``.

    Raises:
        ValueError: the text has another form.
    """
    if text in ("", "none"):
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    low, dash, high = text.partition("-")
    versions = Versions(int(low), int(high) if dash else int(low))
    if versions.low > versions.high:
        raise ValueError(f"versions {text!r} run backwards")
    return versions
