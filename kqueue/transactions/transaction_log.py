"""The log of the transaction coordinator, as the layer above implements it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise

TransactionRecord = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""
Done = Callable[[KqueueError | None], None]
Wake = Callable[[Promise[Any]], None]


class TransactionLog(Protocol):
    """The partitions of `__transaction_state`."""

    @property
    def partition_count(self) -> int:
        """The number of partitions. Constant once the topic exists: it decides which partition
        keeps a transactional id.
        """
        ...

    def append(self, partition: int, records: Sequence[TransactionRecord], done: Done) -> None:
        """Append `records` as one batch, all or nothing.

        `done(None)` is called on the owner thread when they are committed, possibly before `append`
        returns; `done(error)` if they never will be. For one partition, in the order of its log.
        """
        ...


class ProducerIdSource(Protocol):
    """Gives out producer ids, each once."""

    def allocate(self, done: Callable[[int | KqueueError], None]) -> None:
        """Call `done` with a new producer id, or with why there is none; possibly at once."""
        ...
