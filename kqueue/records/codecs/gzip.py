"""gzip (RFC 1952), one member or several after one another."""

from __future__ import annotations

import zlib

from kqueue.records.codecs.contract import Buffer, Levels, above_limit, check_frame_count, damaged

_GZIP_WINDOW = 31  # 15 bits of window, and 16 for gzip's header and trailer
_FIRST_PIECE = 1024


class GzipCodec:
    """As Java's GZIPOutputStream: level 6 by default."""

    id = 1
    name = "gzip"
    levels = Levels(1, 9, -1)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        stream = zlib.compressobj(self.levels.default if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return stream.compress(data) + stream.flush()

    def decompress(self, data: Buffer, limit: int) -> bytes:
        try:
            first, pos = self._member(data, 0, len(data), limit)
            if pos == len(data):
                return first
            return self._more_members(first, data, pos, limit)
        except zlib.error as error:
            raise damaged(self.name, error) from None

    def _more_members(self, first: bytes, data: Buffer, pos: int, limit: int) -> bytes:
        parts, total = [first], len(first)
        while pos < len(data):
            part, pos = self._member(data, pos, _FIRST_PIECE, limit - total)
            parts.append(part)
            total += len(part)
            check_frame_count(self.name, len(parts), total)
        return b"".join(parts)

    def _member(self, data: Buffer, pos: int, piece: int, limit: int) -> tuple[bytes, int]:
        # zlib copies what follows a member. Of a multitude of tiny members it is therefore fed
        # small pieces first, so that the copies don't grow with the square of the data.
        stream, view, parts, total = zlib.decompressobj(_GZIP_WINDOW), memoryview(data), [], 0
        while not stream.eof:
            if pos >= len(view):
                raise damaged(self.name, "the data is cut off")
            parts.append(stream.decompress(view[pos : pos + piece], limit - total + 1))
            total += len(parts[-1])
            if total > limit:
                raise above_limit(self.name, limit)
            pos = min(pos + piece, len(view))
            piece *= 4
        return b"".join(parts) if len(parts) > 1 else parts[0], pos - len(stream.unused_data)
