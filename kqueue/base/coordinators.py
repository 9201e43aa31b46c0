"""What the coordinators of groups and of transactions share: the partition of their log that keeps
an id, whether it was read, and the error of a failed append.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    KqueueError,
    NotCoordinator,
    NotLeader,
    RecordTooLarge,
    RequestRefused,
    StorageFailed,
)


@lru_cache(maxsize=4096)
def coordinator_partition(id: str, partition_count: int) -> int:
    """Return the partition of a coordinator's log that keeps this group id or transactional id.

    Source: Java's String.hashCode, Kafka Utils.abs.
    """
    units = id.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    if code >= 2**31:
        code = 2**32 - code if code != 2**31 else 0
    return code % partition_count


def coordinator_error(failure: KqueueError) -> KqueueError:
    """Return the error for a client whose record could not be written.

    A fenced producer gets its own error. Source: Kafka appendGroupMetadataErrorToResponseError,
    TransactionStateManager.
    """
    if isinstance(failure, (InvalidProducerEpoch, InvalidTransactionState)):
        return failure
    if isinstance(failure, (StorageFailed, NotLeader)):
        return NotCoordinator(str(failure))
    if isinstance(failure, RecordTooLarge):
        return KqueueError(f"the coordinator's record can't be written: {failure}")
    if isinstance(failure, RequestRefused):
        return CoordinatorNotAvailable(str(failure))
    return failure


class CoordinatorPartitions:
    """The partitions of a coordinator's log that were not read, yet or at all.

    Args: count: returns the number of partitions; constant once the topic exists.
        what: what an id names, for messages: "group".
    """

    def __init__(self, what: str, count: Callable[[], int]) -> None:
        self._what = what
        self._count = count
        self._unreadable: dict[int, str] = {}  # partition -> reason
        self._loading: set[int] = set()

    def of(self, id: str) -> int:
        """Return the partition that keeps this id."""
        return coordinator_partition(id, self._count())

    def mark_unreadable(self, partition: int, reason: str) -> None:
        """From now on `check_readable` refuses the ids of this partition."""
        self._unreadable[partition] = reason
        self._loading.discard(partition)

    def mark_loading(self, partition: int) -> None:
        """Refuse the ids of this partition with `check_readable` until `mark_loaded`."""
        self._loading.add(partition)

    def mark_loaded(self, partition: int) -> None:
        """End what `mark_loading` began."""
        self._loading.discard(partition)

    @property
    def is_loading(self) -> bool:
        """Whether a partition is loading."""
        return bool(self._loading)

    def is_partition_loading(self, partition: int) -> bool:
        """Whether this partition is loading."""
        return partition in self._loading

    def is_readable(self, partition: int) -> bool:
        """Whether this partition was read."""
        return partition not in self._loading and partition not in self._unreadable

    def check_readable(self, id: str) -> None:
        """Check that the records of this id were read.

        Raises: NotCoordinator: they could not be. CoordinatorLoadInProgress: not yet.
        """
        if not self._unreadable and not self._loading:
            return
        partition = self.of(id)
        if partition in self._unreadable:
            raise NotCoordinator(f"{self._what} {id!r} can't be read: {self._unreadable[partition]}")
        if partition in self._loading:
            raise CoordinatorLoadInProgress(f"{self._what} {id!r} is still being read")
