"""Offsets of a commit request whose partitions exist, beside the responses for them.

OffsetCommit and TxnOffsetCommit refuse unknown partitions one by one, and commit the others
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from kqueue.api.errors import code_of
from kqueue.base.errors import RequestRefused
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.topics.topics import Topic
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.wire.error_codes import ErrorCode

Outcomes = list[RequestRefused | None]


class RequestedPartition(Protocol):
    """A partition of a commit request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class ResultPartition(Protocol):
    """A partition of the response."""

    error_code: int


P = TypeVar("P", bound=RequestedPartition)


class OffsetSelection:
    """Attributes: `offsets` to commit, and the `results` for them in the response."""

    def __init__(self) -> None:
        self.offsets: list[OffsetToCommit] = []
        self.results: list[ResultPartition] = []

    def add(
        self,
        topic: Topic | None,
        requested: Sequence[P],
        results: Sequence[ResultPartition],
        unknown_topic: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        committed_ms: Callable[[P], int | None] = lambda _: None,
    ) -> SlicedWork[None]:
        """Add the partitions of a topic that exist; set the error of the others in `results`.

        Args: committed_ms: returns the time that a partition's commit names; None: now.
        """
        for partition, result in zip(requested, results, strict=True):
            if topic is None:
                result.error_code = unknown_topic
            elif not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.offsets.append(
                    OffsetToCommit(
                        topic.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        topic.id,
                        committed_ms(partition),
                    )
                )
                self.results.append(result)
            yield None

    def fail(self, code: ErrorCode) -> None:
        """Set the same error for all."""
        for result in self.results:
            result.error_code = code

    def settle(self, promise: Promise[Outcomes]) -> None:
        """Set the outcomes of a commit; COORDINATOR_NOT_AVAILABLE if it is not done in time."""
        if not promise.done:
            self.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif promise.error is not None:
            self.fail(code_of(promise.error))
        else:
            for result, error in zip(self.results, promise.result(), strict=True):
                result.error_code = code_of(error)
