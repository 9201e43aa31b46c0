"""What a partitioner is. Plugins bring theirs under the entry-point group `kqueue.partitioners`: a
class, or any callable that takes a `random.Random` and returns a partitioner;
`kqueue.testing.check_partitioner` tests one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol


class Partitioner(Protocol):
    """Chooses the partition of each record of one producer; may keep state from record to record."""

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        """The partition of the next record.

        Args:
            key: serialized; None where the record has none.
            count: partitions of the topic, >= 1.
            available: those of 0..count-1 that have a leader now, in any order; None or empty = not known, all may do.
                Who places by key must not look at it: a key keeps its partition while that is away.
            value: serialized, for who counts bytes; None where the caller does not say, or where it is null.
            topic: for who keeps state for each topic; "" where the caller does not say.
        Returns: 0..count-1.
        """
        ...


PartitionerFactory = Callable[[random.Random], Partitioner]
