"""Sticky partitioner: ignores the key and stays with one partition until a batch is full.

So batches are few and large.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_BYTES = 16 * 1024  # the clients' usual batch.size
UNKNOWN_VALUE_BYTES = 256  # counted for a record whose value the caller does not show


class StickyPartitioner:
    """Moves on at random, to another partition if there is one, after about `batch_bytes` of keys
    and values of a topic.
    """

    def __init__(self, rng: random.Random, batch_bytes: int = BATCH_BYTES) -> None:
        self._rng = rng
        self._batch_bytes = batch_bytes
        self._current: dict[str, tuple[int, int]] = {}  # topic -> partition, bytes that went there

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        current, sent_bytes = self._next(topic, count, available)
        sent_bytes += len(key or b"") + (UNKNOWN_VALUE_BYTES if value is None else len(value))
        self._current[topic] = current, sent_bytes
        return current

    def runs(
        self, sizes_so_far: NDArray[np.int64], count: int, *, available: Sequence[int] | None = None, topic: str = ""
    ) -> Iterator[tuple[int, int]]:
        """Yield what `partition` returns for many records: (partition, count of records), one run
        after the other. To be run to its end.

        Args: sizes_so_far: of each record the bytes of keys and values up to its end, counted as
        `partition` does.
        """
        at, before = 0, 0
        while at < len(sizes_so_far):
            current, sent_bytes = self._next(topic, count, available)
            # the record that makes it full is the last one of a run
            end = min(int(sizes_so_far.searchsorted(before + self._batch_bytes - sent_bytes)) + 1, len(sizes_so_far))
            after = int(sizes_so_far[end - 1])
            self._current[topic] = current, sent_bytes + after - before
            yield current, end - at
            at, before = end, after

    def _next(self, topic: str, count: int, available: Sequence[int] | None) -> tuple[int, int]:
        """Return the partition of the next record, and the bytes that went there before."""
        current, sent_bytes = self._current.get(topic, (-1, self._batch_bytes))
        stale = current >= count or (available and current not in available)
        if sent_bytes >= self._batch_bytes or stale:
            return self._other(current, available or range(count)), 0
        return current, sent_bytes

    def new_batch(self, topic: str) -> None:
        """The client has begun a new batch: move on with the next record."""
        current, _ = self._current.get(topic, (-1, 0))
        self._current[topic] = current, self._batch_bytes

    def _other(self, current: int, choices: Sequence[int]) -> int:
        others = [choice for choice in choices if choice != current]
        return self._rng.choice(others or list(choices))
