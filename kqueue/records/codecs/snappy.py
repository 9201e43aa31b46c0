"""Snappy: raw blocks, as librdkafka writes them, and the framing of Java's snappy-java ("xerial"),
which Kafka's clients write.

    xerial: 0x82 "SNAPPY" 0x00 | version int32 = 1 | compatible int32 = 1 | blocks: length int32
    | raw snappy block

Both are read; the framing is written, in blocks of 32 KiB. A raw block begins with its decompressed
size as a varint.
"""

from __future__ import annotations

import struct
from typing import Any

from kqueue.records.codecs.contract import Buffer, above_limit, check_frame_count, damaged

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_HEADER = struct.Struct(">8sii")
_XERIAL_HEADER = _HEADER.pack(XERIAL_MAGIC, 1, 1)
_LENGTH = struct.Struct(">i")
_BLOCK_BYTES = 32 * 1024
_GAIN_MAX = 64 / 3  # no element of a block gives more: 64 bytes by a copy of three


def _library() -> Any:
    import snappy  # type: ignore[import-untyped]  # on first need: many a broker never meets it

    return snappy


class SnappyCodec:
    """Reads raw and xerial snappy, writes xerial."""

    id = 2
    name = "snappy"
    levels = None

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        compress, view, parts = _library().compress, memoryview(data), [_XERIAL_HEADER]
        for pos in range(0, len(view), _BLOCK_BYTES):
            block: bytes = compress(view[pos : pos + _BLOCK_BYTES])
            parts += (_LENGTH.pack(len(block)), block)
        return b"".join(parts)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        view = memoryview(data)
        if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
            return self._block(view, limit, limit)
        parts, pos, left, count = [], 0, limit, 0
        while pos < len(view):
            if view[pos : pos + len(XERIAL_MAGIC)] == XERIAL_MAGIC:  # streams may stand after one another
                pos = self._skip_header(view, pos)
                count += 1
                check_frame_count(self.name, count, limit - left)
                continue
            block, pos = self._cut(view, pos)
            parts.append(self._block(block, left, limit))
            left -= len(parts[-1])
            count += 1
            check_frame_count(self.name, count, limit - left)
        return b"".join(parts)

    def _skip_header(self, view: memoryview, pos: int) -> int:
        if len(view) - pos < _HEADER.size:
            raise damaged(self.name, "the header of the framing is cut off")
        return pos + _HEADER.size

    def _cut(self, view: memoryview, pos: int) -> tuple[memoryview, int]:
        start = pos + _LENGTH.size
        if start > len(view):
            raise damaged(self.name, f"a block's length is cut off at {pos}")
        (length,) = _LENGTH.unpack_from(view, pos)
        if not 0 < length <= len(view) - start:
            raise damaged(self.name, f"a block of {length} bytes with {len(view) - start} left")
        return view[start : start + length], start + length

    def _block(self, block: memoryview, left: int, limit: int) -> bytes:
        size = self._claimed_size(block)
        if size > left:
            raise above_limit(self.name, limit)
        if size > len(block) * _GAIN_MAX:
            raise damaged(self.name, f"{len(block)} bytes can't hold the {size} that they claim")
        try:
            return bytes(_library().uncompress(block))
        except Exception as error:  # the library's own class, which is not of one tree over its versions
            raise damaged(self.name, error) from None

    def _claimed_size(self, block: memoryview) -> int:
        size = 0
        for place, byte in enumerate(block[:5]):
            size |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return size
        raise damaged(self.name, "the size at its start is no varint of 32 bits")
