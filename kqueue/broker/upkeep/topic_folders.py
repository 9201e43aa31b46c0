"""Creates the folders of new topics, and deletes those of deleted ones, in slices.

A topic may be created again under the name of a deleted one whose folders are still there. The
folder of a partition is deleted before the log of its successor is opened.
Durability: a folder that was not created is created at the partition's first use. What was not
deleted the next start deletes, see `deleted_topics`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.deleted_topics import DeletedTopics
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.broker.upkeep.cleanup_scheduler import CleanupScheduler
from kqueue.broker.upkeep.log_dir_moves import LogDirMoves
from kqueue.broker.upkeep.log_recovery import LogRecovery
from kqueue.log.log import Log
from kqueue.log.manager import LogManager


class TopicFolders:
    """The partition folders of one broker. Thread: owner thread.

    Attributes: deleted_topics: the entries of those that were deleted.
    """

    def __init__(
        self,
        topics: Topics,
        logs: LogManager,
        deleted_topics: DeletedTopics,
        recovery: LogRecovery,
        moves: LogDirMoves,
        cleanup: CleanupScheduler,
        slices: SliceQueue,
    ) -> None:
        self._topics = topics
        self._logs = logs
        self.deleted_topics = deleted_topics
        self._recovery = recovery
        self._moves = moves
        self._cleanup = cleanup
        self._slices = slices
        self._deleting: dict[str, list[Topic]] = {}  # by name, until all their partitions are deleted
        self._is_stopped = False
        logs.on_removed = self.forget_deleted_topics

    def open_log(self, topic: str, index: int) -> Log:
        """Open the log of a partition. Raises: StorageFailed. LogRecovering."""
        current = self._topics.get(topic)
        self._recovery.check(topic, index)
        for old in self._deleting.get(topic, ()):
            if index < len(old.partitions):
                self.delete(old.partitions[index])
        return self._logs.open(topic, index, current.id, current.log_config)

    def create(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """Create the folders of new partitions; those of an internal topic on first append."""
        for partition in partitions if self._logs.offline else ():
            if partition.has_replica:
                self._logs.expect(topic.name, partition.index)
        if not topic.is_internal:
            self._slices.add(self._create_all(topic, list(partitions)))

    def _create_all(self, topic: Topic, partitions: Sequence[Partition]) -> SlicedWork[None]:
        for partition in partitions:
            if not partition.has_replica:
                continue
            if self._is_stopped or self._topics.find(topic.name) is not topic:
                return  # deleted meanwhile
            if not self._logs.has(topic.name, partition.index):
                self._logs.create(topic.name, partition.index, topic.id)
            yield None

    def delete_all(self, topic: Topic) -> None:
        """Delete the folders of a deleted topic, once no recovery reads one of them."""
        self._deleting.setdefault(topic.name, []).append(topic)
        keys = [(topic.name, partition.index) for partition in topic.partitions]
        self._recovery.drop(keys, lambda: self._slices.add(self._delete_in_slices(topic)))

    def _delete_in_slices(self, topic: Topic) -> SlicedWork[None]:
        for partition in topic.partitions:
            self.delete(partition)
            yield None
        self._deleting[topic.name].remove(topic)
        if not self._deleting[topic.name]:
            del self._deleting[topic.name]
        self.forget_deleted_topics()

    def delete(self, partition: Partition) -> None:
        """Delete the log of a partition of a deleted topic; a second call does nothing."""
        if not partition.deleted:
            self._moves.forget(partition)
            partition.mark_deleted()
            self._logs.delete(partition.topic, partition.index)
            self._cleanup.forget(partition)

    def forget_deleted_topics(self) -> None:
        """Remove the entries of deleted topics that have no folders any more."""
        if not self._deleting:
            self.deleted_topics.forget()

    def stop(self) -> None:
        """Create no more folders; deletions go on."""
        self._is_stopped = True
