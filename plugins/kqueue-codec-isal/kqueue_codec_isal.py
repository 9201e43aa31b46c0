"""gzip codec (RFC 1952) on ISA-L, Intel's storage library; compatible with zlib and faster.

The codec has Kafka's id for gzip. With `kqueue.codecs=isal` it serves all gzip of a broker, and
every Kafka client can read the files.
"""

from __future__ import annotations

from isal import isal_zlib

from kqueue.records.codecs.contract import Buffer, Levels, above_limit, damaged

__all__ = ["CODEC", "IsalCodec"]

_GZIP_WINDOW = 31  # 15 bits of window, and 16 for gzip's header and trailer
_FIRST_PIECE = 1024


class IsalCodec:
    """gzip by ISA-L; levels from 0 (fastest) to 3 (smallest), default 2."""

    id = 1
    name = "isal"
    levels = Levels(0, 3, 2)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        return isal_zlib.compress(data, self.levels.default if level is None else level, _GZIP_WINDOW)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        view = memoryview(data)
        parts: list[bytes] = []
        pos, left, piece = 0, limit, len(view)
        try:
            while pos < len(view) or not parts:
                pos, left = self._member(view, pos, piece, parts, left, limit)
                piece = _FIRST_PIECE
        except isal_zlib.IsalError as error:  # type: ignore[misc]  # its types call the class an instance
            raise damaged(self.name, error) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _member(
        self, view: memoryview, pos: int, piece: int, parts: list[bytes], left: int, limit: int
    ) -> tuple[int, int]:
        """Decompress the member at `pos` into `parts`.

        Returns: the end of the member, and the number of bytes left to the limit.
        """
        # The library copies all input behind a member. Small first pieces keep these copies from
        # growing quadratically for data of many tiny members. The output is limited to one byte
        # above the limit, which is enough to detect a decompression bomb.
        stream = isal_zlib.decompressobj(_GZIP_WINDOW)
        while not stream.eof:
            if pos >= len(view):
                raise damaged(self.name, "the data is cut off")
            part = stream.decompress(view[pos : pos + piece], left + 1)
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise above_limit(self.name, limit)
            pos = min(pos + piece, len(view))
            piece *= 4
        return pos - len(stream.unused_data), left


CODEC = IsalCodec()
