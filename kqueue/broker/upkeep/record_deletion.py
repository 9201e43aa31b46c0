"""Record deletion (DeleteRecords): raises the log start; segments below it are deleted.

The log start that a client has seen never goes back, whatever a power cut loses:

1. All records below the new start are flushed, so that no checkpoint points beyond the log.
2. The checkpoint file gets the new start.
3. Readers see it.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import (
    InvalidTopic,
    KqueueError,
    OffsetOutOfRange,
    PolicyViolation,
    StorageFailed,
    UnknownTopicOrPartition,
)
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager

TO_HIGH_WATERMARK = -1
"""Stands for the log end: all appended records, flushed or not; with other replicas for the high
watermark.
"""


class RecordDeletion:
    """Deletes records of all partitions of one broker. Belongs to the owner thread."""

    def __init__(
        self, logs: LogManager, purgatory: Purgatory, drop_below_start: Callable[[Partition, Topic], None]
    ) -> None:
        self._logs = logs
        self._purgatory = purgatory
        self._drop_below_start = drop_below_start

    def delete_before(self, topic: Topic, index: int, offset: int, *, internal: bool = False) -> Promise[int]:
        """Raise the partition's log start to `offset` (-1: the log end).

        Args: internal: the topic may be internal.
        Returns: the promise of the log start, `offset` or later.
        Durability: on disk when the promise is done; readers see it then. A crash before leaves
            the old or the new start.
        Raises: UnknownTopicOrPartition. InvalidTopic: internal. PolicyViolation: only compacted.
            OffsetOutOfRange: negative, or above the log end; with other replicas above the high
            watermark. StorageFailed. NotLeader.
        Source: Kafka's Partition.deleteRecordsOnLeader.
        """
        partition = topic.partition(index)
        if topic.is_internal and not internal:
            raise InvalidTopic(f"topic {topic.name} is internal: its records can't be deleted")
        if set(topic.config["cleanup.policy"]) == {"compact"}:
            raise PolicyViolation(
                f"topic {topic.name} keeps the last record of each key (cleanup.policy=compact): none can be deleted"
            )
        partition.check_leader()
        log = partition.log
        # unflushed records count: the log start moves after their flush. Those that followers lack
        # do not: an election may undo them
        end = log.readable_end if len(partition.replicas) == 1 else partition.readable_end
        if log.health.failure is not None and end < offset <= log.end_offset:
            raise log.health.failure
        new_start = end if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= new_start <= end:
            raise OffsetOutOfRange(f"{topic.name}-{index}: expected an offset of 0 to {end}, found {offset}")
        promise: Promise[int] = Promise()
        if new_start <= log.start_offset:
            promise.resolve(log.start_offset)
        else:
            partition.after_flush(new_start, lambda: self._save(topic, partition, log, new_start, promise))
        return promise

    def _save(self, topic: Topic, partition: Partition, log: Log, new_start: int, promise: Promise[int]) -> None:
        def saved(error: BaseException | None) -> None:
            failure = _failure(partition, log, error)
            if failure is not None:
                promise.fail(failure)
            else:
                self._advance_start(topic, partition, log, new_start)
                promise.resolve(log.start_offset)
            self._purgatory.wake(promise)

        if log.health.state is not LogState.OFFLINE and new_start <= log.readable_end:
            log.announce_start(new_start)
            self._logs.checkpoints.save_log_starts((topic.name, partition.index), saved)
        else:
            saved(log.health.failure)

    def _advance_start(self, topic: Topic, partition: Partition, log: Log, new_start: int) -> None:
        log.advance_start(new_start)
        self._drop_below_start(partition, topic)
        partition.log_start_moved()  # delayed fetches below the new start must fail


def _failure(partition: Partition, log: Log, error: BaseException | None) -> KqueueError | None:
    if partition.deleted:
        return UnknownTopicOrPartition(f"{partition!r} was deleted")
    if error is not None:
        return (
            error
            if isinstance(error, KqueueError)
            else StorageFailed(f"{partition!r}: the log start could not be written: {error!r}")
        )
    return log.health.failure if log.health.state is LogState.OFFLINE else None
