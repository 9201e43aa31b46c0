"""LZ4 frames, as Kafka's Java client writes them: blocks of 64 KiB, each on its own, no checksum of
the content, no size.

Frames after one another are read too. Kafka's first lz4 (message format 0) computed the header
checksum over the wrong bytes, the frame's magic number included; `Lz4V0Codec` reads any header
checksum and writes that one. Source: KAFKA-3160.
"""

from __future__ import annotations

from typing import Any

from kqueue.records.codecs.contract import Buffer, Levels, above_limit, check_frame_count, damaged

_FLAGS_POSITION = 4
_HAS_CONTENT_SIZE = 0x08
_HAS_DICTIONARY = 0x01
_STEP_BYTES = 64 * 1024
_FIRST_PIECE = 1024


def _library() -> Any:
    import lz4.frame  # type: ignore[import-untyped]  # on first need: many a broker never meets it

    return lz4.frame


class Lz4Codec:
    """Level 9 is Kafka's name for its fast compressor; any other asks for the slow one (levels 1
    and 2 are fast too).
    """

    id = 3
    name = "lz4"
    levels = Levels(1, 17, 9)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        library = _library()
        fast = level is None or level == self.levels.default
        frame: bytes = library.compress(
            data,
            compression_level=0 if fast else level,
            block_size=library.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return frame

    def decompress(self, data: Buffer, limit: int) -> bytes:
        parts: list[bytes] = []
        pos = total = count = 0
        piece = len(data)
        while True:
            count += 1
            check_frame_count(self.name, count, total)
            pos, total = self._frame(memoryview(data), pos, piece, parts, total, limit)
            if pos == len(data):
                return b"".join(parts) if len(parts) != 1 else parts[0]
            piece = _FIRST_PIECE

    def _frame(
        self, view: memoryview, pos: int, piece: int, parts: list[bytes], total: int, limit: int
    ) -> tuple[int, int]:
        # The decoder allocates the step that it is allowed, and copies what follows a frame: so
        # both start small and grow.
        stream, step = _library().LZ4FrameDecompressor(), _STEP_BYTES
        while not stream.eof:
            feed: Buffer = b""
            if stream.needs_input:
                if pos >= len(view):
                    raise damaged(self.name, "the data is cut off")
                feed = view[pos : pos + piece]
                pos = min(pos + piece, len(view))
                piece *= 4
            try:
                part: bytes = stream.decompress(feed, min(step, limit - total + 1))
            except RuntimeError as error:
                raise damaged(self.name, error) from None
            parts.append(part)
            total += len(part)
            if total > limit:
                raise above_limit(self.name, limit)
            step *= 2
        return pos - len(stream.unused_data or b""), total


class Lz4V0Codec(Lz4Codec):
    """The lz4 of message format 0, with its wrong header checksum; in no registry, for no batch of
    magic 2 holds it.
    """

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        frame = bytearray(super().compress(data, level))
        end = _descriptor_end(frame)
        frame[end] = _header_checksum(frame[:end])  # from the magic number on, which the format leaves out
        return bytes(frame)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        if len(data) <= _FLAGS_POSITION or len(data) <= (end := _descriptor_end(data)):
            raise damaged(self.name, "the header is cut off")
        mended = bytearray(data)
        mended[end] = _header_checksum(mended[_FLAGS_POSITION:end])
        return super().decompress(mended, limit)


def _descriptor_end(frame: Buffer) -> int:
    """Position of the header checksum: after flags, block size, and what the flags say follows
    them.
    """
    flags = frame[_FLAGS_POSITION]
    return _FLAGS_POSITION + 2 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)


def _header_checksum(data: Buffer) -> int:
    return xxh32(data) >> 8 & 0xFF


_WORD = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _WORD


def xxh32(data: Buffer) -> int:
    """xxHash32 of `data` with seed 0, by the published algorithm; for the few bytes of a frame's
    header.
    """
    first, second, third, fourth, fifth = _PRIMES
    pos = 0
    if len(data) >= 16:
        lanes = [(first + second) & _WORD, second, 0, -first & _WORD]
        for pos in range(0, len(data) // 16 * 16, 4):
            word = int.from_bytes(data[pos : pos + 4], "little")
            lane = pos // 4 % 4
            lanes[lane] = _rotate((lanes[lane] + word * second) & _WORD, 13) * first & _WORD
        pos += 4
        total = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = fifth
    total = (total + len(data)) & _WORD
    while len(data) - pos >= 4:
        total = _rotate((total + int.from_bytes(data[pos : pos + 4], "little") * third) & _WORD, 17) * fourth & _WORD
        pos += 4
    for byte in bytes(data[pos:]):
        total = _rotate((total + byte * fifth) & _WORD, 11) * first & _WORD
    total = (total ^ total >> 15) * second & _WORD
    total = (total ^ total >> 13) * third & _WORD
    return total ^ total >> 16
