"""Partitioners by the CRC-32 of the key, as in librdkafka."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

from kqueue.records.partitioners.random import RandomPartitioner


class Crc32ConsistentPartitioner:
    """librdkafka's ``consistent``: records with an empty key or none all go to partition 0."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        return zlib.crc32(key or b"") % count


class Crc32Partitioner(Crc32ConsistentPartitioner):
    """librdkafka's ``consistent_random``, its default: records with an empty key or none go
    anywhere.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._keyless = RandomPartitioner(rng)

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        if not key:
            return self._keyless.partition(key, count, available=available)
        return super().partition(key, count)
