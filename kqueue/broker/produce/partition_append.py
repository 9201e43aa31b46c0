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
        appended: where the records are; None: they are not appended.
        error: why they are not appended, or not confirmed as `acks` asks; None: there is no error.
        partition: set once it is found.
        promise: of a deferred append; set while it is under way.
        has_moved, log_start_offset: set with `error`. Whether this broker does not lead, so that
            the client asks who does; and where the log of a refused append starts, if it is open.
    """

    __slots__ = ("appended", "error", "has_moved", "index", "log_start_offset", "partition", "promise", "records")
    __deletable__ = ("promise",)  # for mypyc

    partition: Partition
    promise: Promise[AppendResult]
    has_moved: bool
    log_start_offset: int

    def __init__(self, index: int, records: memoryview | None) -> None:
        # Each request makes one of each partition: what only errors need is set with the error.
        self.index = index
        self.records = records
        self.appended: AppendResult | None = None
        self.error: KqueueError | None = None

    def fail(self, error: KqueueError, *, has_moved: bool = False, log_start_offset: int = NO_OFFSET) -> None:
        """Note why the records are not appended, or not confirmed."""
        self.error, self.has_moved, self.log_start_offset = error, has_moved, log_start_offset

    def refuse(self, error: KqueueError) -> None:
        """Note why the found partition refused the records, and where its log starts."""
        partition = self.partition
        self.fail(error, log_start_offset=partition.log_start_offset if partition.is_open else NO_OFFSET)
