"""Partitioner by the murmur2 hash of the key, as in Java's client; sticky for records without a
key.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from kqueue.records.partitioners.sticky import StickyPartitioner

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed that Kafka uses, unsigned. Source: Kafka
    Utils.murmur2.
    """
    size = len(data)
    whole = size // 4
    result = _SEED ^ size
    for word in struct.unpack_from(f"<{whole}I", data):
        word = word * _MULTIPLIER & _WORD
        word = (word ^ word >> 24) * _MULTIPLIER & _WORD
        result = result * _MULTIPLIER & _WORD ^ word
    if size % 4:
        result = (result ^ int.from_bytes(data[whole * 4 :], "little")) * _MULTIPLIER & _WORD
    result = (result ^ result >> 13) * _MULTIPLIER & _WORD
    return result ^ result >> 15


class Murmur2Partitioner:
    """Kafka's default. An empty key is a key."""

    def __init__(self, rng: random.Random) -> None:
        self.keyless = StickyPartitioner(rng)

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        if key is None:
            return self.keyless.partition(None, count, available=available, value=value, topic=topic)
        return (murmur2(key) & 0x7FFFFFFF) % count

    def new_batch(self, topic: str) -> None:
        """Let records without a key change the partition."""
        self.keyless.new_batch(topic)
