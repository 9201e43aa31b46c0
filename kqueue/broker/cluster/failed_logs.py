"""Leaves the replicas of this broker whose logs have failed: a bad disk, a lost data folder.

    failed      a write or fsync failed, or the log can't be opened
    left        this broker is in sync for the partition no more; another one leads it

As long as another member of the in-sync set is active, or an eligible replica, this broker commits
that itself, guarded by its session, as it alone knows which log lies where. Where there is nobody
it stays: it serves what it has flushed. Other partitions are not touched. A failed log copies
nothing until the next start, so the broker joins no set of it again. Source: KIP-112, Kafka's
ReplicationControlManager.handleDirectoriesOffline.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.text import counted
from kqueue.base.timers import Timer, Timers
from kqueue.broker.cluster.registration import Registration
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topics
from kqueue.replication.config import TopicReplication
from kqueue.replication.elections import leave, raise_epochs
from kqueue.replication.registrations import TOPICS_PREFIX, TopicRegistration

TOPICS_MAX = 50
"""So many are committed at once."""
RETRY_MS = 1000
"""The wait before the next try where no broker could take a partition, or a commit was refused."""
logger = logging.getLogger("kqueue.broker")


class FailedLogs:
    """The failed logs of one broker. Implements `ReplicaEvents`. Thread: owner thread."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        cluster: ClusterBrokers,
        topics: Topics,
        registration: Registration,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._topics = topics
        self._registration = registration
        self._timers = timers
        self._clock = clock
        self._failed: dict[Partition, None] = {}
        self._is_committing = self._stopped = False
        self._next: Timer | None = None

    def note(self, partition: Partition) -> None:
        """The log of a partition has failed."""
        self._failed[partition] = None
        self._soon(0)

    def stop(self) -> None:
        """Change nothing more."""
        self._stopped = True

    def became_leader(self, partition: Partition) -> None:
        if partition in self._failed:
            self._soon(0)

    def became_follower(self, partition: Partition) -> None:
        pass

    def removed(self, partition: Partition) -> None:
        self._failed.pop(partition, None)

    def _soon(self, ms: float) -> None:
        if self._next is None and not self._stopped:
            self._next = self._timers.at(self._clock.monotonic_ms() + ms, self._leave)

    def _leave(self) -> None:
        self._next = None
        if self._is_committing or self._stopped:
            return
        by_topic: dict[str, list[int]] = {}
        for partition in self._failed:
            if self._cluster.node_id in partition.isr:
                by_topic.setdefault(partition.topic, []).append(partition.index)
        if not by_topic:
            return
        puts: dict[str, bytes] = {}
        count = 0
        # A fenced broker has left the sets already, or is about to: the controller does it.
        for name in list(by_topic)[:TOPICS_MAX] if self._registration.is_unfenced else ():
            left = self._left(name, by_topic[name])
            if left is not None:
                puts[TOPICS_PREFIX + name] = left[0].to_bytes()
                count += left[1]
        if puts:
            self._commit(puts, count)
        else:
            self._soon(RETRY_MS)

    def _left(self, name: str, indexes: list[int]) -> tuple[TopicRegistration, int] | None:
        """Return the topic without this broker, and in how many partitions; None: in none."""
        topic, record = self._topics.find(name), self._metadata.get(TOPICS_PREFIX + name)
        if topic is None or record is None:
            return None
        own = self._cluster.node_id
        active = {broker.id for broker in self._cluster.brokers() if broker.is_active and broker.id != own}
        min_isr = TopicReplication.of(topic.config).min_insync
        try:
            registration = TopicRegistration.from_bytes(name, record)
        except StorageFailed:
            return None  # reported where it was read
        partitions = list(registration.partitions)
        for index in indexes:
            before = partitions[index]
            partitions[index] = raise_epochs(before, leave(before, own, active, min_isr))
        count = sum(after is not before for after, before in zip(partitions, registration.partitions, strict=True))
        return (registration._replace(partitions=tuple(partitions)), count) if count else None

    def _commit(self, puts: Mapping[str, bytes], count: int) -> None:
        self._is_committing = True

        def done(error: KqueueError | None) -> None:
            self._is_committing = False
            if error is None:
                events.PARTITIONS_LEFT_TO_OTHERS.log(
                    logger,
                    "%s with a failed log here are left to other brokers",
                    partitions=counted(count, "partition"),
                )
            self._soon(0 if error is None else RETRY_MS)

        self._metadata.commit("leave failed replicas", puts, done, by=self._registration.session)
