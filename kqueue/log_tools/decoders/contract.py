"""The decoder interface."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import CorruptData
from kqueue.records.record import Record

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""A record's key and value as text, None: null. Raises DecodeError."""


class DecodeError(CorruptData):
    """The bytes are not in the format that the decoder reads."""
