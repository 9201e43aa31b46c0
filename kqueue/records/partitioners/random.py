"""Random partitioner: ignores the key."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class RandomPartitioner:
    """Any partition that has a leader is as likely as another."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        return self._rng.choice(available) if available else self._rng.randrange(count)
