"""What a decoder is."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import CorruptData
from kqueue.records.record import Record

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""A record's key and value as text, None: null. Raises DecodeError."""


class DecodeError(CorruptData):
    """Bytes that are not what the decoder reads."""
