"""The log of the group coordinator, as the layer above implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise

GroupRecords = list[tuple[bytes, bytes | None]]
"""Keys and values; a value of None is a tombstone."""
Done = Callable[[KqueueError | None], None]
Wake = Callable[[Promise[Any]], None]


class TransactionalProducer(NamedTuple):
    """The producer that writes in a transaction."""

    producer_id: int
    epoch: int


class TransactionalRecord(NamedTuple):
    """A record that counts when its producer's transaction commits."""

    producer_id: int
    key: bytes
    value: bytes | None


class EndMarker(NamedTuple):
    """The end of the transaction of a producer in one partition of the log."""

    producer_id: int
    committed: bool


LogEntry = tuple[bytes, bytes | None] | TransactionalRecord | EndMarker
"""An entry of the log, in its order: a record without a transaction is a key and a value."""


class GroupLog(Protocol):
    """The partitions of `__consumer_offsets`."""

    @property
    def partition_count(self) -> int:
        """The number of partitions. Constant once the topic exists: it decides which partition
        keeps a group.
        """
        ...

    @property
    def offset_version(self) -> int:
        """The version of the records of committed offsets that its readers know."""
        ...

    def append(
        self, partition: int, records: GroupRecords, done: Done, producer: TransactionalProducer | None = None
    ) -> None:
        """Append `records` as one batch, all or nothing, with `producer` in its transaction.

        `done(None)` is called on the owner thread when they are committed, possibly before `append`
        returns; `done(error)` if they never will be. For one partition, in the order of its log.
        """
        ...
