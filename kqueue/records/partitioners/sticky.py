"""Whatever the key: stay with one partition until a batch is full, so that batches are few and large (KIP-480, KIP-794)."""

from __future__ import annotations

import random
from collections.abc import Sequence

BATCH_BYTES = 16 * 1024  # the clients' usual batch.size
UNKNOWN_VALUE_BYTES = 256  # counted for a record whose value the caller does not show


class StickyPartitioner:
    """Moves on at random, to another partition if there is one, after about `batch_bytes` of keys and values of a topic."""

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
        current, sent_bytes = self._current.get(topic, (-1, self._batch_bytes))
        stale = current >= count or (available and current not in available)
        if sent_bytes >= self._batch_bytes or stale:
            current, sent_bytes = self._other(current, available or range(count)), 0
        sent_bytes += len(key or b"") + (UNKNOWN_VALUE_BYTES if value is None else len(value))
        self._current[topic] = current, sent_bytes
        return current

    def new_batch(self, topic: str) -> None:
        """The client has begun a new batch: move on with the next record."""
        current, _ = self._current.get(topic, (-1, 0))
        self._current[topic] = current, self._batch_bytes

    def _other(self, current: int, choices: Sequence[int]) -> int:
        others = [choice for choice in choices if choice != current]
        return self._rng.choice(others or list(choices))
