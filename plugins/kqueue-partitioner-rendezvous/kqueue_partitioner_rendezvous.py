"""Partitioner by rendezvous hashing (highest random weight): keys move only to added partitions.

Each partition has a weight for each key. The partition with the highest weight gets the key; of
equal weights the lower partition wins:

    weight(p, key) = XXH3-64(XXH3-64(key) as 8 bytes big-endian, seed = p)

An added partition does not change the other weights. Of n partitions each new one gets about 1/n of
the keys, and no key moves between existing partitions.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import repeat

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from kqueue.records.partitioners.sticky import StickyPartitioner

__all__ = ["RendezvousPartitioner", "rendezvous"]


def rendezvous(key: bytes, count: int) -> int:
    """Return the partition of `key`, 0..count-1; `count` >= 1. An empty key is a key.

    It takes about 0.1 µs per partition, plus one hash of the key.
    """
    digest = xxh3_64_digest(key)
    weights: list[int] = list(map(xxh3_64_intdigest, repeat(digest), range(count)))
    return weights.index(max(weights))


class RendezvousPartitioner:
    """Assigns keys by `rendezvous`, and records without a key by Kafka's sticky default."""

    def __init__(self, rng: random.Random) -> None:
        self._keyless = StickyPartitioner(rng)

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
            return self._keyless.partition(None, count, available=available, value=value, topic=topic)
        return rendezvous(key, count)

    def new_batch(self, topic: str) -> None:
        """Select another partition for records without a key; kafka-python 3 began a new batch."""
        self._keyless.new_batch(topic)
