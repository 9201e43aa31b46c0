"""Frames: every request and response is a big-endian int32 length, then so many bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from kqueue.base.errors import MalformedMessage
from kqueue.schema import Chunk

LENGTH = struct.Struct(">i")
LENGTH_SIZE = LENGTH.size


def frame_size(buf: bytes | bytearray | memoryview, position: int, size_max: int) -> int:
    """The length that stands at `position`, where 4 bytes must be; nothing is allocated for it
    before it is checked.

    Raises MalformedMessage: negative, or above `size_max` (`socket.request.max.bytes`).
    """
    size: int = LENGTH.unpack_from(buf, position)[0]
    if not 0 <= size <= size_max:
        raise MalformedMessage(f"expected a frame of 0 to {size_max} bytes, found {size}")
    return size


def frame_length(chunks: Iterable[Chunk]) -> bytes:
    """The length to send before these chunks. Raises MalformedMessage: 2 GiB or more in all."""
    size = sum(map(len, chunks))
    if size >= 1 << 31:
        raise MalformedMessage(f"expected a frame below 2^31 bytes, made one of {size}")
    return LENGTH.pack(size)


class Cutter:
    """Cuts a stream of bytes into frames, for peers whose speed does not matter: it copies what it
    is fed.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._rest = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Take what arrived; yields the frames that are complete, without their lengths. Raises
        MalformedMessage: see `frame_size`.
        """
        self._rest += data
        while len(self._rest) >= LENGTH_SIZE:
            end = LENGTH_SIZE + frame_size(self._rest, 0, self.size_max)
            if len(self._rest) < end:
                return
            frame = bytes(self._rest[LENGTH_SIZE:end])
            del self._rest[:end]
            yield frame

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._rest)
