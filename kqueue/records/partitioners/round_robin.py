"""Round-robin partitioner: ignores the key."""

from __future__ import annotations

import random
from collections.abc import Sequence


class RoundRobinPartitioner:
    """Counts for each topic, from 0, over the partitions that have a leader. Source: Kafka
    RoundRobinPartitioner.
    """

    def __init__(self, rng: random.Random) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return sorted(available)[turn % len(available)] if available else turn % count
