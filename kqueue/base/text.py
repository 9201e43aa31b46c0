"""Numbers and values as text for people, and bytes as the text that Java makes of them."""

from __future__ import annotations

import re

SHOWN_CHARACTERS = 60
# A surrogate, which is invalid in UTF-8: one error for Java's decoder, whole or truncated, and two
# or three for Python's.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Return UTF-8 as text, with Java's number of replacement characters for invalid bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")


def size_text(size: float) -> str:
    """Return bytes in the largest unit that keeps the number above 1: ``17 B``, ``3.4 MB`` (powers
    of 1000).
    """
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if size < 999.95:
            break
        size /= 1000
        unit = larger
    return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 record``, ``1,234 records``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_repr(value: object) -> str:
    """Return a value as an error message shows it, shortened where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
