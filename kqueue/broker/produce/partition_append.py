"""The append to one partition of a Produce request: its records, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kqueue.base.errors import KqueueError
    from kqueue.base.promise import Promise
    from kqueue.broker.replicas.partition import Partition
    from kqueue.log.results import AppendResult

NO_OFFSET = -1


class PartitionAppend:
    """One partition of a request, until the response.

    Attributes:
        index: of the partition, as the request names it.
        records: None: the request has none, or they are appended in a later turn and released.
        partition: None: it was not found.
        promise: of a deferred append that has not ended.
        appended: where the records are; None: they are not appended.
        error: why they are not appended, or not confirmed as `acks` asks.
        has_moved: whether the error says that this broker does not lead, so the client asks where.
        log_start_offset: of a refused append whose log is open; else `NO_OFFSET`.
    """

    __slots__ = ("appended", "error", "has_moved", "index", "log_start_offset", "partition", "promise", "records")

    def __init__(self, index: int, records: memoryview | None) -> None:
        self.index = index
        self.records = records
        self.partition: Partition | None = None
        self.promise: Promise[AppendResult] | None = None
        self.appended: AppendResult | None = None
        self.error: KqueueError | None = None
        self.has_moved = False
        self.log_start_offset = NO_OFFSET

    def refuse(self, error: KqueueError) -> None:
        """Note why nothing was appended, and where the log starts."""
        self.error = error
        partition = self.partition
        if partition is not None and partition.is_open:
            self.log_start_offset = partition.log_start_offset
