"""Numbers as text for people."""

from __future__ import annotations


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
