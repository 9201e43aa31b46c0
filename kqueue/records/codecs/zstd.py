"""Zstandard frames (RFC 8878), with or without their content size, one or several, skippable ones
among them.

    frame: magic 0xFD2FB528 | descriptor uint8 | window uint8, unless single segment |
    dictionary id | content size
         | blocks: 24 bits little-endian: last 1, type 2, size 21; content | checksum uint32, if
         the descriptor says so

The frames are walked before anything is decompressed. So it is known where each ends and what it
comes to at most, one call with room for just that does the work, and a frame that is cut off is
seen, which the library's streams pass over.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kqueue.records.codecs.contract import Buffer, Levels, above_limit, check_frame_count, damaged

_MAGIC = 0xFD2FB528
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_WORD = struct.Struct("<I")
_CHECKSUM = 0x04
_SINGLE_SEGMENT = 0x20
_DESCRIPTOR_POSITION = 4
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_BLOCK_HEADER_BYTES = 3
_BLOCK_MAX = 128 * 1024
_RAW, _RLE, _COMPRESSED = 0, 1, 2
_WINDOW_FREELY = 8 * 1024 * 1024  # a claim up to this is granted


class Frame(NamedTuple):
    """The end of a frame, and the most bytes that it decompresses to (exactly, if `size_known`)."""

    end: int
    bytes_max: int
    size_known: bool


def _library() -> Any:
    import zstandard  # on first need: many a broker never meets it

    return zstandard


class ZstdCodec:
    """Level 3 by default."""

    id = 4
    name = "zstd"
    levels = Levels(-131072, 22, 3)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        frame: bytes = _library().ZstdCompressor(level=self.levels.default if level is None else level).compress(data)
        return frame

    def decompress(self, data: Buffer, limit: int) -> bytes:
        view, parts, pos, left, count = memoryview(data), [], 0, limit, 0
        while pos < len(view) or pos == 0:
            count += 1
            check_frame_count(self.name, count, limit - left)
            if (end := self._end_of_skippable(view, pos)) is None:
                frame = self._walk(view, pos)
                parts.append(self._content(view[pos : frame.end], frame, left, limit))
                left -= len(parts[-1])
                end = frame.end
            pos = end
        return b"".join(parts) if len(parts) != 1 else parts[0]

    def _end_of_skippable(self, view: memoryview, pos: int) -> int | None:
        if self._word(view, pos) not in _SKIPPABLE:
            return None
        end = pos + 2 * _WORD.size + self._word(view, pos + _WORD.size)
        if end > len(view):
            raise damaged(self.name, "the data is cut off")
        return end

    def _word(self, view: memoryview, pos: int) -> int:
        if len(view) - pos < _WORD.size:
            raise damaged(self.name, "the data is cut off")
        return int(_WORD.unpack_from(view, pos)[0])

    def _walk(self, view: memoryview, pos: int) -> Frame:
        if (magic := self._word(view, pos)) != _MAGIC:
            raise damaged(self.name, f"expected the magic number {_MAGIC:#x} at {pos}, found {magic:#x}")
        try:
            descriptor = view[pos + _DESCRIPTOR_POSITION]
            content_size, blocks = _read_content_size(view, pos, descriptor)
            end, bytes_max = self._walk_blocks(view, blocks)
        except IndexError:
            raise damaged(self.name, "the data is cut off") from None
        end += _WORD.size if descriptor & _CHECKSUM else 0
        if end > len(view):
            raise damaged(self.name, "the data is cut off")
        if content_size is None:
            return Frame(end, bytes_max, False)
        if content_size > bytes_max:
            raise damaged(self.name, f"a frame claims {content_size} bytes, but its blocks hold {bytes_max} at most")
        return Frame(end, content_size, True)

    def _walk_blocks(self, view: memoryview, pos: int) -> tuple[int, int]:
        bytes_max = last = count = 0
        while not last:
            count += 1
            check_frame_count(self.name, count, bytes_max)
            header = view[pos] | view[pos + 1] << 8 | view[pos + 2] << 16
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if kind > _COMPRESSED or size > _BLOCK_MAX:
                raise damaged(self.name, f"a block of type {kind} and {size} bytes at {pos}")
            bytes_max += _BLOCK_MAX if kind == _COMPRESSED else size
            pos += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
        return pos, bytes_max

    def _content(self, data: Buffer, frame: Frame, left: int, limit: int) -> bytes:
        if frame.size_known and frame.bytes_max > left:
            raise above_limit(self.name, limit)
        library = _library()
        try:
            room = min(frame.bytes_max, left + 1) or 1  # for the library, 0 means that it shall guess
            content: bytes = library.ZstdDecompressor().decompress(
                _tame_window(data, frame.bytes_max), max_output_size=room
            )
        except library.ZstdError as error:
            raise damaged(self.name, f"{error}, with room for {room} bytes") from None
        if len(content) > left:
            raise above_limit(self.name, limit)
        return content


def _read_content_size(view: memoryview, pos: int, descriptor: int) -> tuple[int | None, int]:
    """The size that the frame's header gives, None if it gives none, and where the blocks begin."""
    single = bool(descriptor & _SINGLE_SEGMENT)
    pos += _DESCRIPTOR_POSITION + 1 + (not single) + _DICTIONARY_ID_BYTES[descriptor & 3]
    width = _CONTENT_SIZE_BYTES[descriptor >> 6] or int(single)
    if not width:
        return None, pos
    size = int.from_bytes(view[pos : pos + width], "little")
    return size + 256 if width == 2 else size, pos + width


def _tame_window(data: Buffer, bytes_max: int) -> Buffer:
    """The frame with a window no larger than its content can need: the library would allocate what
    it claims, up to 128 MiB.
    """
    if data[_DESCRIPTOR_POSITION] & _SINGLE_SEGMENT:
        return data
    exponent = data[_DESCRIPTOR_POSITION + 1] >> 3
    if 1024 << exponent <= _WINDOW_FREELY:
        return data
    needed = max(bytes_max, _WINDOW_FREELY)
    tamed = bytearray(data)
    tamed[_DESCRIPTOR_POSITION + 1] = min(exponent, (needed - 1).bit_length() - 10) << 3
    return tamed
