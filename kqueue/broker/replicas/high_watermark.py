"""The high watermark of an open log: records below it are committed."""

from __future__ import annotations

from collections.abc import Callable


class HighWatermark:
    """Offset after the last committed record. It never goes back.

    After a follower's log was cut, its partition begins with a new object: the records are gone, so
    the old value names nothing.

    Args: on_advance: called with each higher value, after it is in force.
    Attributes: value: changed by `advance` only. Each append and read asks it.
    """

    __slots__ = ("_on_advance", "value")

    def __init__(self, value: int, on_advance: Callable[[int], None]) -> None:
        self.value = value
        self._on_advance = on_advance

    def advance(self, offset: int) -> None:
        """Raise it to `offset`; the present value changes nothing."""
        value = self.value
        if offset != value:
            assert offset > value, f"the high watermark would go back from {value} to {offset}"
            self.value = offset
            self._on_advance(offset)
