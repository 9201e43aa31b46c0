"""The log of the group coordinator, as the layer above implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise

GroupRecords = list[tuple[bytes, bytes | None]]
"""Keys and values; a value of None is a tombstone."""
Done = Callable[[KqueueError | None], None]
Wake = Callable[[Promise[Any]], None]


class GroupLog(Protocol):
    """The partitions of `__consumer_offsets`."""

    @property
    def partition_count(self) -> int:
        """How many partitions. Constant once the topic exists: it decides which partition keeps a
        group.
        """
        ...

    def append(self, partition: int, records: GroupRecords, done: Done) -> None:
        """Append `records` as one batch, all or nothing.

        `done(None)` is called on the owner thread when they are committed, possibly before `append`
        returns; `done(error)` if they never will be. For one partition, in the order of its log.
        """
        ...
