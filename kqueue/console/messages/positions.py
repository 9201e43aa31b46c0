"""Positions in a topic as text that fits a URL: ``0.120_1.80``, partition and offset."""

from __future__ import annotations

from collections.abc import Mapping

PARTITIONS_MAX = 100
"""Partitions of one page; a topic with more has them on several."""
_DIGITS_MAX = 19
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1


def position_text(offsets: Mapping[int, int]) -> str:
    """Return offsets by partition as text."""
    return "_".join(f"{partition}.{offset}" for partition, offset in sorted(offsets.items()))


def parse_position(text: str) -> dict[int, int]:
    """Return the offsets of a text by partition; none for an empty one.

    Raises: ValueError: it is no position.
    """
    offsets: dict[int, int] = {}
    for part in text.split("_", PARTITIONS_MAX) if text else ():
        partition, dot, offset = part.partition(".")
        if not dot or not _is_number(partition) or not _is_number(offset):
            raise ValueError("expected a position such as 0.120_1.80, of partitions and offsets")
        offsets[int(partition)] = int(offset)
        if int(partition) > _PARTITION_MAX or int(offset) > _OFFSET_MAX:
            raise ValueError("expected a position with partitions of 32 bits and offsets of 64")
    if len(offsets) > PARTITIONS_MAX:
        raise ValueError(f"expected a position in at most {PARTITIONS_MAX} partitions")
    return offsets


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
