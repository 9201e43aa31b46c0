"""Records that somebody wants gone: the log of a partition begins later from then on, and segments
that lie wholly before go.

The order: what is to be forgotten is on the disk (so that a checkpoint never points beyond the
log), the checkpoint says where the log starts, and only then does anybody see it. So the log start
that a client was told never goes back, whatever a power cut takes.
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
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.topics import Topic
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager

TO_HIGH_WATERMARK = -1
"""In place of an offset: everything that was appended before, flushed or not."""


class RecordDeletion:
    """Deletes records for all partitions of one broker. Runs on the owner thread.

    `drop_below_start(partition, topic)` lets go of the segments that lie wholly below a log's
    start.
    """

    def __init__(
        self, logs: LogManager, waiting: Purgatory, drop_below_start: Callable[[Partition, Topic], None]
    ) -> None:
        self._logs = logs
        self._purgatory = waiting
        self._drop_below_start = drop_below_start

    def delete_before(self, topic: Topic, index: int, offset: int) -> Promise[int]:
        """Let the partition's log begin at `offset` (-1: the log end); the promise gives where it
        begins, `offset` or later.

        Durability: when the promise is done, which is also when the first client may see it. Crash
        before: done or not done. Raises: UnknownTopicOrPartition, InvalidTopic: the broker's own.
        PolicyViolation: the topic is compacted, and nothing else. OffsetOutOfRange: negative, or
        above the log end. StorageFailed. Source: Kafka Partition.deleteRecordsOnLeader.
        """
        partition = topic.partition(index)
        if topic.is_internal:
            raise InvalidTopic(f"topic {topic.name} is the broker's own: its records can't be deleted")
        if list(topic.config["cleanup.policy"]) == ["compact"]:
            raise PolicyViolation(
                f"topic {topic.name} keeps the last record of each key (cleanup.policy=compact): none can be deleted"
            )
        log = partition.log
        # what was appended counts: the log start moves once it is flushed, and so visible
        end = log.readable_end
        if log.offline is not None and end < offset <= log.end_offset:
            raise log.offline
        before = end if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= before <= end:
            raise OffsetOutOfRange(f"{topic.name}-{index}: expected an offset of 0 to {end}, found {offset}")
        promise: Promise[int] = Promise()
        if before <= log.start_offset:
            promise.resolve(log.start_offset)
        else:
            partition.after_flush(before, lambda: self._save(topic, partition, log, before, promise))
        return promise

    def _save(self, topic: Topic, partition: Partition, log: Log, before: int, promise: Promise[int]) -> None:
        def saved(error: BaseException | None) -> None:
            failure = _failure(partition, log, error)
            if failure is not None:
                promise.fail(failure)
            else:
                self._begin_there(topic, partition, log, before)
                promise.resolve(log.start_offset)
            self._purgatory.wake(promise)

        if log.state is not LogState.OFFLINE and before <= log.readable_end:
            log.announce_start(before)
            self._logs.save_log_starts((topic.name, partition.index), saved)
        else:
            saved(log.offline)

    def _begin_there(self, topic: Topic, partition: Partition, log: Log, before: int) -> None:
        log.advance_start(before)
        self._drop_below_start(partition, topic)
        self._purgatory.wake(partition)  # who waits for more where nothing is any more has to hear of it


def _failure(partition: Partition, log: Log, error: BaseException | None) -> KqueueError | None:
    if partition.deleted:
        return UnknownTopicOrPartition(f"{partition!r} was deleted")
    if error is not None:
        return (
            error
            if isinstance(error, KqueueError)
            else StorageFailed(f"{partition!r}: the log start can't be written: {error!r}")
        )
    return log.offline if log.state is LogState.OFFLINE else None
