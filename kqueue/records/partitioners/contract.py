"""Contract of a partitioner.

Plugins register a class, or a callable that takes a `random.Random` and returns a partitioner,
under the entry-point group `kqueue.partitioners`; `kqueue.testing.check_partitioner` tests one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol


class Partitioner(Protocol):
    """Chooses the partition of each record of one producer. It may keep state between records."""

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        """Return the partition of the next record, 0..count-1.

        Args:
            key: serialized; None: the record has none.
            count: partitions of the topic, >= 1.
            available: partitions that have a leader now, in any order; None or empty: not known.
                A partitioner by key must ignore it, so that a key keeps its partition.
            value: serialized, for partitioners that count bytes; None: not given, or null.
            topic: for partitioners with state per topic; "": not given.
        """
        ...


PartitionerFactory = Callable[[random.Random], Partitioner]
