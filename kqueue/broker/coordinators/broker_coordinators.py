"""The coordinators of one broker, with the internal topics that keep what they know."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from kqueue.base.config import Config
from kqueue.base.issued_ids import ProducerEpochs
from kqueue.broker.coordinators.coordinator_loads import Coordinator, CoordinatorLoads
from kqueue.broker.coordinators.group_topics import GroupTopics
from kqueue.broker.coordinators.internal_topic_log import InternalTopicLog, OffsetsTopicLog, TransactionTopicLog
from kqueue.broker.coordinators.record_versions import record_versions
from kqueue.broker.coordinators.streams_topics import StreamsTopics
from kqueue.broker.coordinators.transaction_markers import TransactionMarkers
from kqueue.broker.coordinators.transaction_routes import AdderRouter, MarkerRouter
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.metadata.features import TRANSACTION_VERSION
from kqueue.broker.metadata.producer_ids import ProducerIdCallbacks
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.topics.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic, TopicEvents, Topics
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.groups.modern.environment import GroupSettings
from kqueue.log.manager import LogManager
from kqueue.replication.registrations import TOPICS_PREFIX
from kqueue.transactions.coordinator import Surroundings, TransactionCoordinator


class _Loaded(NamedTuple):
    """A coordinator, and the log of `topic` from which it is loaded. `what`: it keeps."""

    topic: str
    coordinator: Coordinator
    log: Any
    what: str


class Coordinators(TopicEvents):
    """Coordinates groups and transactions, and loads all coordinators. Thread: owner thread.

    Attributes:
        groups: the group coordinator.
        offsets_log: where it keeps groups and offsets.
        streams_topics: creates the internal topics of streams groups.
        transactions: the transaction coordinator.
        markers: ends transactions in the partitions of this broker.
        marker_router: in those of all brokers.
        transaction_partitions: asks the coordinator of a transactional id, wherever it is.
        loads: from the internal topics.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        metadata: BrokerMetadata,
        group_settings: GroupSettings,
        scheduler: Scheduler,
        loads: CoordinatorLoads,
        producer_epochs: ProducerEpochs,
        rng: random.Random,
    ) -> None:
        """Args:
        group_settings: see `GroupCoordinator`.
        producer_epochs: see `Surroundings`.
        """
        purgatory, timers, clock = scheduler.purgatory, scheduler.timers, scheduler.clock
        self._topics, self._metadata = topics, metadata
        self._versions = record_versions(config["kqueue.as.version"])
        self._group_topics = GroupTopics(topics, metadata.cluster)
        if not metadata.cluster.is_alone:  # racks of replicas
            metadata.cluster.observe(lambda _: self._group_topics.note_change())
            metadata.cache.observe(TOPICS_PREFIX, lambda _: self._group_topics.note_change())
        self.streams_topics = StreamsTopics(topics, scheduler.slices)
        self.offsets_log = OffsetsTopicLog(
            config, topics, purgatory, clock, offset_version=self._versions.committed_offset
        )
        self.groups = GroupCoordinator(
            config, clock, timers, rng, self.offsets_log, purgatory.wake, self._group_topics, group_settings
        )
        ended = self.groups.complete_transaction
        self.markers = TransactionMarkers(topics, purgatory, timers, clock, on_group_marker=ended)
        self.marker_router = MarkerRouter(lambda: metadata.cluster, topics, self.markers)
        transaction_log = TransactionTopicLog(config, topics, purgatory, clock)
        surroundings = Surroundings(
            transaction_log,
            self.marker_router,
            ProducerIdCallbacks(metadata.producer_ids, purgatory),
            transaction_version=self._transaction_version,
            coordinator_epoch=self._coordinator_epoch,
            wake=purgatory.wake,
            producer_epochs=producer_epochs,
        )
        self.transactions = TransactionCoordinator(config, clock, timers, surroundings)
        self.transaction_partitions = AdderRouter(lambda: metadata.cluster, topics, self.transactions)
        self.loads = loads
        self._loaded = [
            _Loaded(OFFSETS_TOPIC, self.groups, self.offsets_log, "groups"),
            _Loaded(TRANSACTIONS_TOPIC, self.transactions, transaction_log, "transactions"),
        ]

    def load_with(self, topic: str, coordinator: Coordinator, log: InternalTopicLog, what: str) -> None:
        """Load another coordinator too. Args: what: it keeps, for messages: "share groups"."""
        self._loaded.append(_Loaded(topic, coordinator, log, what))

    def load(self, logs: LogManager) -> None:
        """Begin to load what a single broker has."""

        def has_or_had(topic: str, index: int) -> bool:
            return logs.has(topic, index) or logs.unavailable_reason(topic, index) is not None

        for _, coordinator, log, what in self._loaded:
            self.loads.add(coordinator, log, what, log.used_partitions(has_or_had))

    def follow_leaders(self) -> None:
        """From now on have what this broker leads of the internal topics."""
        for row in self._loaded:
            self.loads.follow(*row)

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        self._group_topics.note_change()

    def deleted(self, topic: Topic) -> None:
        self._group_topics.note_change()
        self.groups.delete_topic(topic.name)

    def _coordinator_epoch(self, partition: int) -> int | None:
        if self._metadata.cluster.is_alone:
            return None
        return self._topics.partition(TRANSACTIONS_TOPIC, partition).leader_epoch

    def _transaction_version(self) -> int:
        level, highest = self._metadata.features.level(TRANSACTION_VERSION), self._versions.transaction
        return level if highest is None else min(level, highest)
