"""Moves of logs between data folders, as the broker sees them: which partitions, and when.

While a log is copied, nothing is deleted from it and it is not compacted; this is made up for
afterwards. While it is replaced, for some ms, appends of producers wait in the partition's queue,
and the broker's own appends get a retriable error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kqueue.base.errors import (
    InvalidTopic,
    KqueueError,
    NotLeader,
    ReplicaNotAvailable,
    StorageUnavailable,
    UnknownTopicOrPartition,
)
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.replicas.partition import Partition, PartitionState
from kqueue.broker.topics.topics import Topics
from kqueue.broker.upkeep.cleanup_scheduler import CleanupScheduler
from kqueue.log.log import Log
from kqueue.log.log_mover import MoveState
from kqueue.log.manager import LogManager

Key = tuple[str, int]
FOLDER_LENGTH_MAX = 255
FUTURE_SUFFIX_LENGTH = len(".") + 32 + len("-future")


class LogDirMoves:
    """The `MoveHost` of a broker. Belongs to the owner thread.

    Args: bytes_per_s: limit of the copies' rate.
    """

    def __init__(
        self,
        topics: Topics,
        logs: LogManager,
        cleanup: CleanupScheduler,
        timers: Timers,
        bytes_per_s: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._cleanup = cleanup
        self._mover = logs.make_mover(timers, self, bytes_per_s)
        cleanup.is_paused = self.is_copying

    def alter(self, topic: str, index: int, place: str) -> None:
        """Bring a partition's log to the data folder `place`.

        It is moved in the background. A partition that does not exist yet is created there.
        Raises: InvalidTopic: its name is too long. LogDirNotFound. StorageFailed: a folder or the
            log is offline. ReplicaNotAvailable: it is being recovered.
            UnknownTopicOrPartition, NotLeader (of a cluster: this broker has no replica): a log
            that is created later goes there.
        Source: Kafka's ReplicaManager.alterReplicaLogDirs.
        """
        if len(topic) + len(f"-{index}") + FUTURE_SUFFIX_LENGTH > FOLDER_LENGTH_MAX:
            raise InvalidTopic(f"the name of topic {topic} is too long: the folder of a copy would exceed 255 bytes")
        target = self._mover.folder_at(place)
        key = (topic, index)
        try:
            partition = self._topics.partition(topic, index)
        except UnknownTopicOrPartition:
            self._mover.alter(key, target)
            raise
        if not partition.has_replica:
            self._mover.alter(key, target)
            raise NotLeader(f"this broker has no replica of {topic}-{index}")
        if partition.state is PartitionState.RECOVERING:
            raise ReplicaNotAvailable(f"{partition!r} is being recovered: try again later")
        if partition.is_open and partition.log.health.failure is not None:
            raise partition.log.health.failure
        self._mover.alter(key, target)

    def is_copying(self, key: Key) -> bool:
        """Whether the log is being copied, so that nothing may be removed from it."""
        move = self._mover.of(key)
        return move is not None and move.state in (MoveState.COPYING, MoveState.SWAPPING)

    def forget(self, partition: Partition) -> None:
        """End the move of a partition that is being deleted."""
        self._mover.cancel((partition.topic, partition.index), "it was deleted")

    def resume(self) -> None:
        """Begin the moves again that the last stop has interrupted."""
        self._mover.resume()

    def stop(self) -> None:
        """Begin no more steps of any move."""
        self._mover.stop()

    # --- what the mover asks

    def log_to_move(self, key: Key) -> tuple[Log, bytes] | None:
        topic = self._topics.get(key[0])
        if self._cleanup.is_busy(key):
            return None
        log = topic.partition(key[1]).log
        if log.health.failure is not None:
            raise log.health.failure
        return log, topic.id

    def run_without_appends(self, key: Key, steps: SlicedWork[None]) -> None:
        partition = self._topics.partition(*key)

        def run() -> SlicedWork[None]:
            partition.moving = StorageUnavailable(f"{partition!r} is being moved to another data folder: try again")
            try:
                yield from steps
            finally:
                partition.moving = None

        partition.run_in_append_queue(run())

    def use_log(self, key: Key, log: Log) -> None:
        self._topics.partition(*key).use_log(log)

    def move_ended(self, key: Key) -> None:
        with contextlib.suppress(KqueueError):  # it was deleted
            self._cleanup.retain(self._topics.partition(*key))
