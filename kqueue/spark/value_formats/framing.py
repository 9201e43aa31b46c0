"""The frame before values that serializers with a registry write.

A zero byte, the schema's id in four bytes, and for Protobuf the indexes of the message in its file.
Source: Confluent's wire format.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = 0
HEADER_BYTES = 5
INDEXES_MAX = 32
"""Levels of messages in messages."""
_VARINT_BYTES_MAX = 5


class FrameError(ValueError):
    """A value has no such frame; the message says why."""


class Frame(NamedTuple):
    """A frame. `start`: where the encoded value begins."""

    schema_id: int
    indexes: tuple[int, ...]
    start: int


def read_frame(value: bytes, *, with_indexes: bool) -> Frame:
    """Return the frame of a value. Raises: FrameError."""
    if len(value) < HEADER_BYTES:
        raise FrameError(f"no frame of a schema registry: expected {HEADER_BYTES} bytes, found {len(value)}")
    if value[0] != MAGIC:
        raise FrameError(f"no frame of a schema registry: expected the first byte 0, found {value[0]}")
    schema_id = int.from_bytes(value[1:HEADER_BYTES], "big")
    if not with_indexes:
        return Frame(schema_id, (), HEADER_BYTES)
    count, at = _zigzag(value, HEADER_BYTES)
    if count == 0:
        return Frame(schema_id, (0,), at)  # the short form of the first message
    if not 0 < count <= INDEXES_MAX:
        raise FrameError(f"the frame has {count} message indexes, expected 1 to {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if index < 0:
            raise FrameError(f"the frame has the message index {index}")
        indexes.append(index)
    return Frame(schema_id, tuple(indexes), at)


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        if at >= len(value):
            raise FrameError("the frame ends within its message indexes")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
    raise FrameError(f"a message index of the frame has more than {_VARINT_BYTES_MAX} bytes")
