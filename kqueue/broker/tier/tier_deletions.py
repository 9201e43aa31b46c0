"""Deletes the objects of topics that are deleted, and of partitions that are tiered no more.

A deletion that a crash interrupts is found again: that of a topic by its entry among the deleted
topics, which stays until the objects are gone; that of a partition by the topic's setting
`remote.log.delete.on.disable`, at each new leadership. What is in the tier and unknown here is
never deleted: a cluster that lost its metadata may be recovered from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier.tier_host import TierHost
from kqueue.broker.tier.tier_objects import delete_partition, delete_topic
from kqueue.broker.topics.deleted_topics import deleted_topics
from kqueue.broker.topics.tiered_topics import DELETE_ON_DISABLE
from kqueue.broker.topics.topics import Topic
from kqueue.broker.upkeep.topic_folders import TopicFolders
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord


@dataclass(slots=True)
class _Deletion:
    """One deletion. index: of the partition; None: the whole topic."""

    topic_id: bytes
    index: int | None
    run: Callable[[], None]
    is_running: bool = False


class TierDeletions:
    """The deletions of one broker. Thread: owner thread."""

    def __init__(self, host: TierHost, metadata: MetadataCache, folders: TopicFolders) -> None:
        self._host = host
        self._metadata = metadata
        self._folders = folders
        self._deletions: dict[tuple[bytes, int | None], _Deletion] = {}
        folders.deleted_topics.is_kept = self.is_pending

    def start(self) -> None:
        """Go on with what a crash, or a stop, has interrupted."""
        for topic_id, name in deleted_topics(self._metadata).items():
            self.delete_topic(name, topic_id)
        for topic in self._host.topics:
            for partition in topic.partitions:
                if partition.is_leader:
                    self.resume(topic, partition)

    def resume(self, topic: Topic, partition: Partition) -> None:
        """Go on with the deletion of a partition that is led here, if it is tiered no more."""
        if not topic.log_config.tiered and topic.config.overrides.get(DELETE_ON_DISABLE):
            self.delete_partition(topic, partition.index)

    def is_pending(self, topic_id: bytes) -> bool:
        """Whether the topic, or a partition of it, has objects that are to be deleted."""
        return any(key[0] == topic_id for key in self._deletions)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        """Delete all objects of a topic."""
        store, now_ms = self._host.store, self._host.clock.wall_ms()
        record = TopicRecord(name, topic_id, partitions=1, created_ms=now_ms, deleted_ms=now_ms)
        self._add(topic_id, None, lambda: delete_topic(store, record))

    def delete_partition(self, topic: Topic, index: int) -> None:
        """Delete all objects of a partition."""
        store, tiered = self._host.store, TieredPartition(topic.name, topic.id, index)
        self._add(topic.id, index, lambda: delete_partition(store, tiered))

    def cancel(self, topic: Topic) -> None:
        """Delete no more of a topic that is tiered again; what is left of it is claimed anew."""
        for key in [key for key, each in self._deletions.items() if key[0] == topic.id and not each.is_running]:
            del self._deletions[key]

    def retry(self) -> None:
        """Begin again what has failed."""
        for deletion in list(self._deletions.values()):
            self._begin(deletion)

    def _add(self, topic_id: bytes, index: int | None, run: Callable[[], None]) -> None:
        deletion = self._deletions[topic_id, index] = _Deletion(topic_id, index, run)
        self._begin(deletion)

    def _begin(self, deletion: _Deletion) -> None:
        if deletion.is_running or not self._host.is_ours:
            return
        deletion.is_running = True

        def finish(_: None, error: BaseException | None) -> None:
            deletion.is_running = False
            key = deletion.topic_id, deletion.index
            if error is not None or self._deletions.get(key) is not deletion:
                return  # the next round tries again
            del self._deletions[key]
            self._folders.forget_deleted_topics()

        self._host.manifests.submit("delete objects of the tier", deletion.run, finish)
