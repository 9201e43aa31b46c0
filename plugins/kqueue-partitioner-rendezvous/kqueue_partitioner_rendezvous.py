"""A partitioner by rendezvous hashing (highest random weight): a key leaves its partition only for
one that was added.

Each partition has a weight for each key, and the heaviest gets it:

    weight of partition p for a key = XXH3-64(8 bytes: the XXH3-64 digest of the key, big-endian; seed p)        ties: the lower p

An added partition changes no other's weight: of n partitions each new one takes about 1/n of the
keys, and none moves between old ones. Source: Thaler and Ravishankar, "Using name-based mappings to
increase hit rates", 1998.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import repeat

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from kqueue.records.partitioners.sticky import StickyPartitioner

__all__ = ["RendezvousPartitioner", "rendezvous"]


def rendezvous(key: bytes, count: int) -> int:
    """The partition of `key`, 0..count-1; `count` >= 1. An empty key is a key. About 0.1 µs per
    partition, however long the key.
    """
    digest = xxh3_64_digest(key)
    weights: list[int] = list(map(xxh3_64_intdigest, repeat(digest), range(count)))
    return weights.index(max(weights))


class RendezvousPartitioner:
    """Places keys by `rendezvous`; records without a key stick together as Kafka's default has it,
    one batch after another.
    """

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
        """kafka-python 3 has begun a new batch: the next record without a key goes to another
        partition.
        """
        self._keyless.new_batch(topic)
