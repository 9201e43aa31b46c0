"""The log of the share coordinator, as the layer above implements it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kqueue.base.errors import KqueueError

StateRecord = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""
Done = Callable[[KqueueError | None], None]


class StateEntry(NamedTuple):
    """A record of the log, for the replay."""

    offset: int
    key: bytes
    value: bytes | None


class StateLog(Protocol):
    """The partitions of `__share_group_state`."""

    @property
    def partition_count(self) -> int:
        """The number of partitions. Constant once the topic exists: it decides which partition
        keeps a share partition.
        """
        ...

    def append(self, partition: int, records: Sequence[StateRecord], done: Done) -> None:
        """Append `records` as one batch, all or nothing.

        `done(None)` is called on the owner thread when they are committed, possibly before `append`
        returns; `done(error)` if they never will be. For one partition, in the order of its log.
        """
        ...

    def end_offset(self, partition: int) -> int:
        """Return an offset that the next record will have or exceed."""
        ...

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the records below `offset`; one that fails is repeated by a later call."""
        ...
