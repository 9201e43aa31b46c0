"""LZ4 frames, as Kafka's Java client writes them: blocks of 64 KiB, each on its own, no checksum of the content, no size.

Frames after one another are read too. Kafka's first lz4 (message format 0) computed the header checksum over the wrong
bytes, the frame's magic number included; `Lz4V0Codec` reads any header checksum and writes that one. Source: KAFKA-3160.
"""

from __future__ import annotations

from typing import Any

from kqueue.records.codecs.contract import Buffer, Levels, above_limit, damaged

_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS_POSITION = 4
_STEP_BYTES = 64 * 1024
_FIRST_PIECE = 1024


def _library() -> Any:
    import lz4.frame  # type: ignore[import-untyped]  # on first need: many a broker never meets it

    return lz4.frame


class Lz4Codec:
    """Level 9 is Kafka's name for its fast compressor; any other asks for the slow one (levels 1 and 2 are fast too)."""

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
        pos = total = 0
        piece = len(data)
        while True:
            pos, total = self._frame(memoryview(data), pos, piece, parts, total, limit)
            if pos == len(data):
                return b"".join(parts) if len(parts) != 1 else parts[0]
            piece = _FIRST_PIECE

    def _frame(self, view: memoryview, pos: int, piece: int, parts: list[bytes], total: int, limit: int) -> tuple[int, int]:
        # The decoder allocates the step that it is allowed, and copies what follows a frame: so both start small and grow.
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
