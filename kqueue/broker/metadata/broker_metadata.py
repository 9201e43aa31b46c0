"""The metadata of one broker: the records of the store, and what they say of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kqueue.base.config import Config
from kqueue.base.issued_ids import IssuedIds
from kqueue.broker.metadata.brokers import BROKERS_CHANGED, Cluster, ClusterBrokers, SingleBroker
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.metadata.features import Features
from kqueue.broker.metadata.identity import BrokerIdentity
from kqueue.broker.metadata.producer_ids import ProducerIds
from kqueue.broker.scheduler import Scheduler
from kqueue.metadata.store import ClusterStore, MetadataStore
from kqueue.replication.config import CLUSTER_STORE
from kqueue.replication.registrations import BROKERS_PREFIX


class BrokerMetadata:
    """Reads and changes the metadata of a single broker, or of the cluster that it is a member of.

    Attributes:
        cache: the records, by key.
        cluster: the brokers.
        features: which formats are in use.
        producer_ids: those that this broker hands out.
    """

    def __init__(
        self,
        config: Config,
        identity: BrokerIdentity,
        store: MetadataStore,
        scheduler: Scheduler,
        issued: IssuedIds,
        make_room: Callable[[], bool],
    ) -> None:
        """Args: make_room: see `MetadataCache`."""
        self._purgatory = scheduler.purgatory
        node_id, jobs, purgatory = identity.node_id, scheduler.jobs, scheduler.purgatory
        self.cluster: Cluster
        self.cache: MetadataCache
        if config[CLUSTER_STORE] is None:
            self.cluster = SingleBroker(identity)
            self.cache = MetadataCache(store, jobs, purgatory, make_room)
        else:
            shared = cast(ClusterStore, store)
            self.cluster = ClusterBrokers.of(node_id, config)
            self.cache = ClusterMetadata(shared, jobs, purgatory, scheduler.timers, scheduler.clock, make_room)
        self.features = Features(self.cache, self.cluster)
        self.producer_ids = ProducerIds(self.cache, node_id, issued)

    def load(self) -> None:
        """Read the records. Blocks. Raises StorageFailed."""
        self.cache.load()
        self.features.load()

    def follow_brokers(self) -> None:
        """Read the registrations of brokers, and follow their changes; a single broker has none."""
        if isinstance(self.cluster, ClusterBrokers):
            self.cluster.apply(self.cache.with_prefix(BROKERS_PREFIX))
            self.cache.observe(BROKERS_PREFIX, self.cluster.apply)
            self.cluster.observe(lambda node_id: self._purgatory.wake(BROKERS_CHANGED))
