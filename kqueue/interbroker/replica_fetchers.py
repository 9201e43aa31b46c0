"""The fetch loops of this broker: `num.replica.fetchers` from each broker that leads a partition of
which it has a replica. Source: Kafka's ReplicaFetcherManager.
"""

from __future__ import annotations

import zlib

from kqueue.base.config import Config
from kqueue.broker.fetch.replication_throttle import ReplicationThrottle
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.tier_config import FOLLOW_FROM_TIERED
from kqueue.broker.topics.topics import Topics
from kqueue.interbroker.contract import Peers
from kqueue.interbroker.replica_fetcher import Key, ReplicaFetcher
from kqueue.replication.config import FOLLOWER_SIDE, FetcherConfig
from kqueue.replication.registrations import NO_LEADER


class ReplicaFetchers:
    """Implements `ReplicaEvents`: follows the leaders. Belongs to the owner thread.

    Args: host: of all partitions; it reports their changes from now on.
    """

    def __init__(
        self, config: Config, scheduler: Scheduler, cluster: Cluster, topics: Topics, host: PartitionHost, peers: Peers
    ) -> None:
        self.clock = scheduler.clock
        self.timers = scheduler.timers
        self.purgatory = scheduler.purgatory
        self.peers = peers
        self.node_id = cluster.node_id
        self.flush_before_fetch = host.flush_before_visible
        self._config = config
        self._cluster = cluster
        self._topics = topics
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._assigned: dict[Partition, tuple[ReplicaFetcher, Key]] = {}
        self.throttle = ReplicationThrottle(FOLLOWER_SIDE, config, topics, self.clock, self.node_id)
        self.config = FetcherConfig.of(config)
        names = [f"replica.fetch.{name}" for name in ("max.bytes", "min.bytes", "response.max.bytes", "wait.max.ms")]
        config.observe([*names, "replica.fetch.backoff.ms", "num.replica.fetchers"], self._reconfigure)
        host.replica_events.append(self)

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's present registration; -1: it has none."""
        own = self._cluster.find(self.node_id)
        return -1 if own is None else own.epoch

    @property
    def skips_tiered(self) -> bool:
        """See `FetcherHost`."""
        return bool(self._config[FOLLOW_FROM_TIERED])

    def became_leader(self, partition: Partition) -> None:
        """See `ReplicaEvents`."""
        self._forget(partition)

    def became_follower(self, partition: Partition) -> None:
        """See `ReplicaEvents`."""
        topic = self._topics.find(partition.topic)
        leader = partition.leader
        if leader == NO_LEADER or leader == self.node_id or topic is None:
            self._forget(partition)
            return
        index = zlib.crc32(f"{partition.topic}-{partition.index}".encode()) % self.config.fetchers
        fetcher = self._fetchers.get((leader, index))
        if fetcher is None:
            fetcher = self._fetchers[leader, index] = ReplicaFetcher(self, leader, index)
        assigned = self._assigned.get(partition)
        if assigned is not None and assigned[0] is not fetcher:
            self._forget(partition)
        self._assigned[partition] = (fetcher, (topic.id, partition.index))
        fetcher.add(topic.id, partition)

    def removed(self, partition: Partition) -> None:
        """See `ReplicaEvents`."""
        self._forget(partition)

    def close(self) -> None:
        """Copy nothing more. Call it before the peers are closed."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._assigned.clear()

    def _forget(self, partition: Partition) -> None:
        assigned = self._assigned.pop(partition, None)
        if assigned is not None:
            fetcher, key = assigned
            fetcher.remove(key)

    def _reconfigure(self) -> None:
        before, self.config = self.config, FetcherConfig.of(self._config)
        if before.fetchers != self.config.fetchers:
            for partition in list(self._assigned):
                self.became_follower(partition)
