"""No compression."""

from __future__ import annotations

from kqueue.records.codecs.contract import Buffer, above_limit


class NoneCodec:
    """Bytes as they are."""

    id = 0
    name = "none"
    levels = None

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        return bytes(data)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        if len(data) > limit:
            raise above_limit(self.name, limit)
        return bytes(data)
