"""Conversions between record formats, at once."""

from __future__ import annotations

from typing import Any

from kqueue.base.sliced_task import run_to_end
from kqueue.records import format_conversion
from kqueue.records.codecs import Buffer


def up_convert(message_set: Buffer, **limits: int) -> list[bytearray]:
    """Return batches of magic 2 with the records of an old message set."""
    return run_to_end(format_conversion.up_convert(message_set, **limits))


def down_convert(buf: Buffer, magic: int, **options: Any) -> bytes:
    """Return the records of batches as message sets."""
    return run_to_end(format_conversion.down_convert(buf, magic, **options))
