"""Frames: a request or response is a big-endian int32 length, then that many bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kqueue.base.errors import MalformedMessage
from kqueue.schema import Chunk

LENGTH: Final = struct.Struct(">i")
LENGTH_SIZE: Final = LENGTH.size


def frame_size(buf: bytes | bytearray | memoryview, position: int, size_max: int) -> int:
    """Return the frame length in the 4 bytes at `position`; no memory is allocated before.

    Raises:
        MalformedMessage: negative, or above `size_max` (`socket.request.max.bytes`).
    """
    size: int = LENGTH.unpack_from(buf, position)[0]
    if not 0 <= size <= size_max:
        raise MalformedMessage(f"expected a frame of 0 to {size_max} bytes, found {size}")
    return size


def frame_length(chunks: Iterable[Chunk]) -> bytes:
    """Return the encoded length of these chunks.

    Raises:
        MalformedMessage: 2 GiB or more in all.
    """
    size = sum(map(len, chunks))
    if size >= 1 << 31:
        raise MalformedMessage(f"expected a frame below 2^31 bytes, made one of {size}")
    return LENGTH.pack(size)
