"""What the coordinators of groups and of transactions share: the partition of their log that keeps
an id, and the error of a failed append.
"""

from __future__ import annotations

from functools import lru_cache

from kqueue.base.errors import (
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
