"""The broker: composes logs, groups and metadata for the API handlers. Source: Kafka's
ReplicaManager.

It knows no wire protocol, socket or event loop. One thread owns it. Clock, randomness, storage and
jobs are passed in.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.jobs import Jobs
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.access.security import BrokerSecurity
from kqueue.broker.client_telemetry.subscriptions import open_telemetry
from kqueue.broker.cluster.partition_changes import PartitionChanges
from kqueue.broker.cluster.replica_manager import Replicas
from kqueue.broker.configs.dynamic_configs import DynamicConfigs, IneffectiveSettings
from kqueue.broker.coordinators.coordinator_loads import Coordinator, CoordinatorLoads
from kqueue.broker.coordinators.group_topics import GroupTopics
from kqueue.broker.coordinators.internal_topic_log import OffsetsTopicLog, ShareTopicLog, TransactionTopicLog
from kqueue.broker.coordinators.record_versions import record_versions
from kqueue.broker.coordinators.streams_topics import StreamsTopics
from kqueue.broker.coordinators.transaction_markers import TransactionMarkers
from kqueue.broker.coordinators.transaction_routes import AdderRouter, MarkerRouter
from kqueue.broker.fetch.fetch_sessions import FetchSessions
from kqueue.broker.fetch.follower_sessions import FollowerSessions
from kqueue.broker.metadata.brokers import BROKERS_CHANGED, Cluster, ClusterBrokers, Membership, SingleBroker
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.metadata.features import TRANSACTION_VERSION, Features
from kqueue.broker.metadata.producer_ids import ProducerIdCallbacks, ProducerIds
from kqueue.broker.produce.record_copies import RecordCopies
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.append_queue import AppendScheduler
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.refused_batches import RefusedBatches
from kqueue.broker.replicas.replica import SoleReplica
from kqueue.broker.replicas.replica_events import ReplicaEvents
from kqueue.broker.share.share_groups import ShareGroups
from kqueue.broker.share.share_persister import SharePersister
from kqueue.broker.topics import folder_import, record_forms
from kqueue.broker.topics.deleted_topics import DeletedTopics, deleted_topics
from kqueue.broker.topics.topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC, Topic, Topics
from kqueue.broker.upkeep.backlog import Backlogs
from kqueue.broker.upkeep.cleanup_scheduler import CleanupScheduler
from kqueue.broker.upkeep.log_dir_moves import LogDirMoves
from kqueue.broker.upkeep.log_recovery import LogRecovery
from kqueue.broker.upkeep.record_deletion import RecordDeletion
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.recovery.recovery_task import LogToRecover
from kqueue.metadata.store import ClusterStore, MetadataStore
from kqueue.replication.config import CLUSTER_STORE
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    Endpoint,
)
from kqueue.storage import Storage
from kqueue.transactions.coordinator import Surroundings, TransactionCoordinator

logger = logging.getLogger("kqueue.broker")
EPOCH_KEY = "/leader_epoch"
ALTER_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
DECOMPRESSED_MAX = "kqueue.max.decompressed.bytes"
Endpoints = Callable[[str], tuple[str, int]]
Wake = Callable[[Callable[[], None]], None]


class Broker:
    """One broker without the network. Call `start` first, `stop` last; both block the owner thread.

    `logs` must be open, `store` ready to read. `endpoints(listener)` returns the address advertised
    to clients of a listener, `listeners` all of them by name, and `wake(call)` calls on the owner
    thread, from any; the network layer sets them. Set before: `member`; None: a single broker.
    """

    member: Membership | None = None
    endpoints: Endpoints
    wake: Wake

    def __init__(
        self,
        config: Config,
        logs: LogManager,
        store: MetadataStore,
        *,
        clock: Clock,
        jobs: Jobs,
        rng: random.Random,
        timers: Timers | None = None,
        issued: IssuedIds | None = None,
    ) -> None:
        self.config, self.clock, self.jobs, self.logs = config, clock, jobs, logs
        self.timers, self._issued = timers or Timers(clock), issued or IssuedIds()
        self.purgatory = Purgatory(self.timers, clock)
        self.append_scheduler = AppendScheduler(self.purgatory, jobs, clock)
        self.refused_batches = RefusedBatches()
        self.node_id = node_id(config)
        self.rack: str | None = config["broker.rack"]
        self.sole_replica = SoleReplica(self.node_id)
        self.replica_events: list[ReplicaEvents[Partition]] = []
        on_disk = config["kqueue.storage"] != "memory"  # memory has nothing to flush
        self.flush_before_visible = on_disk and config["kqueue.flush"] == "group"
        self.flush_by_policy = on_disk and not self.flush_before_visible
        self.verify_reads = bool(config["kqueue.verify.reads"])
        self.endpoints, self.wake = _no_endpoints, _no_wake
        self.listeners: Mapping[str, Endpoint] = {}
        self.security = BrokerSecurity.of(config, clock, jobs, self.timers)
        self.cluster: Cluster = self._open_cluster()
        self._ineffective = IneffectiveSettings(config.catalog, self.cluster)
        self.metadata = self._open_metadata(store)
        self.features = Features(self.metadata, self.cluster)
        self._stopping, self._slices = False, SliceQueue(self.timers, clock)
        self._deleting: dict[str, list[Topic]] = {}  # deleted topics by name, until all their partitions are deleted
        self.topics = self._new_topics(rng)
        self.partition_changes = PartitionChanges(self.topics, self.metadata, self.cluster, self._slices)
        self.configs = DynamicConfigs(
            config, self.node_id, self.metadata, self.topics, self._after_effect, jobs, logs.sealer
        )
        metrics, wake = self.configs.client_metrics, self.purgatory.wake
        self.telemetry = open_telemetry(config, metrics, clock, rng, self.timers, jobs, wake)
        config.observe([PRODUCER_EXPIRATION], self._set_producer_expiration)
        config.observe(topic_defaults(config), lambda: self._slices.add(self.topics.refresh()))
        self.producer_ids = ProducerIds(self.metadata, self.node_id, self._issued)
        self.record_copies = RecordCopies()
        self.fetch_sessions, self.follower_sessions = self._new_fetch_sessions(rng)
        self._record_versions = record_versions(config["kqueue.as.version"])
        self.groups, self.transaction_markers, self.transactions = self._new_coordinators(rng)
        self.backlogs = Backlogs(self.timers, clock, self.groups.offsets_of_topic, logs.may_have_batches)
        self.groups.observe_offsets(self.backlogs.committed)
        recoveries = config["num.recovery.threads.per.data.dir"]
        self.recovery = LogRecovery(logs, jobs, clock, recoveries, self._log_to_recover, self._log_settled)
        self._loads = CoordinatorLoads(self.append_scheduler, self.purgatory, self.timers, clock, self._note_ready)
        self.ready: Promise[None] = Promise()
        self._deleted_topics = DeletedTopics(self.metadata, logs, self.cluster)
        logs.on_removed = self._forget_deleted_topics
        cleanup = self.cleanup = CleanupScheduler(
            config, self.topics, logs, self.groups.offsets, self.purgatory, jobs, self.timers, clock
        )
        self.moves = LogDirMoves(self.topics, logs, cleanup, self.timers, lambda: int(config[ALTER_LOG_DIRS_RATE]))
        self.replicas = Replicas(self.topics, logs, self.recovery, self.moves, cleanup, self.purgatory, clock, jobs)
        self.deletion = RecordDeletion(logs, self.purgatory, cleanup.drop_below_start)
        self._share_log, self.share = self._new_share_groups()
        self.groups.share.states = self.share

    def _open_cluster(self) -> Cluster:
        if self.config[CLUSTER_STORE] is not None:
            return ClusterBrokers.of(self.node_id, self.config)
        return SingleBroker(self.node_id, self.rack, lambda: self.listeners, lambda name: self.endpoints(name))

    def _open_metadata(self, store: MetadataStore) -> MetadataCache:
        jobs, purgatory, make_room = self.jobs, self.purgatory, self.logs.make_room
        if self.cluster.is_alone:
            return MetadataCache(store, jobs, purgatory, make_room)
        return ClusterMetadata(cast(ClusterStore, store), jobs, purgatory, self.timers, self.clock, make_room)

    def _new_topics(self, rng: random.Random) -> Topics:
        return Topics(
            self.config,
            self.metadata,
            self,
            rng,
            on_created=self._partitions_created,
            on_configured=self._topic_configured,
            on_deleted=self._topic_deleted,
        )

    def _new_fetch_sessions(self, rng: random.Random) -> tuple[FetchSessions, FollowerSessions]:
        config, clock = self.config, self.clock
        of_consumers = FetchSessions(config["max.incremental.fetch.session.cache.slots"], clock, rng)
        return of_consumers, FollowerSessions(self.topics, self.purgatory, clock, rng, config, self.node_id)

    def _new_coordinators(
        self, rng: random.Random
    ) -> tuple[GroupCoordinator, TransactionMarkers, TransactionCoordinator]:
        config, topics, purgatory, clock = self.config, self.topics, self.purgatory, self.clock
        offset_version = self._record_versions.committed_offset
        self._group_log = OffsetsTopicLog(config, topics, purgatory, clock, offset_version=offset_version)
        groups = self._new_group_coordinator(rng)
        markers = TransactionMarkers(topics, purgatory, self.timers, clock, on_group_marker=groups.complete_transaction)
        self._transaction_log = TransactionTopicLog(config, topics, purgatory, clock)
        return groups, markers, self._new_transaction_coordinator(markers)

    def _new_group_coordinator(self, rng: random.Random) -> GroupCoordinator:
        self._group_topics = GroupTopics(self.topics, self.cluster)
        if not self.cluster.is_alone:  # racks of replicas
            self.cluster.observe(lambda _: self._group_topics.note_change())
            self.metadata.observe(TOPICS_PREFIX, lambda _: self._group_topics.note_change())
        topics, settings = self._group_topics, self.configs.groups.set_values
        self.streams_topics = StreamsTopics(self.topics, self._slices)
        return GroupCoordinator(
            self.config, self.clock, self.timers, rng, self._group_log, self._wake, topics, settings
        )

    def _new_transaction_coordinator(self, markers: TransactionMarkers) -> TransactionCoordinator:
        self.marker_router = MarkerRouter(lambda: self.cluster, self.topics, markers)
        surroundings = Surroundings(
            self._transaction_log,
            self.marker_router,
            ProducerIdCallbacks(self.producer_ids, self.purgatory),
            transaction_version=self._transaction_version,
            coordinator_epoch=self._coordinator_epoch,
            wake=self._wake,
            producer_epochs=self._issued.producer_epochs(self.cluster_id),
        )
        coordinator = TransactionCoordinator(self.config, self.clock, self.timers, surroundings)
        self.transaction_partitions = AdderRouter(lambda: self.cluster, self.topics, coordinator)
        return coordinator

    def _coordinator_epoch(self, partition: int) -> int | None:
        if self.cluster.is_alone:
            return None
        return self.topics.partition(TRANSACTIONS_TOPIC, partition).leader_epoch

    def _transaction_version(self) -> int:
        level, highest = self.features.level(TRANSACTION_VERSION), self._record_versions.transaction
        return level if highest is None else min(level, highest)

    def _new_share_groups(self) -> tuple[ShareTopicLog, ShareGroups]:
        log = ShareTopicLog(self.config, self.topics, self.purgatory, self.clock, self.deletion)
        groups, scheduler, purgatory = self.configs.groups, self.append_scheduler, self.purgatory
        share = ShareGroups(self.config, self.topics, groups, log, purgatory, scheduler, self.timers, self.clock)
        share.states = SharePersister(lambda: self.cluster, self.topics, share.coordinator, self.timers, self.clock)
        return log, share

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of all partitions of a single broker; in a cluster each has its own."""
        return self.sole_replica.leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self.sole_replica.begin_epoch(epoch)

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64, constant for the data folder."""
        return self.logs.cluster_id

    def start(self) -> None:
        """Load metadata; begin to recover logs and to load groups, which ends with `ready`.

        Until then each log is served once it is recovered, and each group once it is loaded. What
        can't be recovered is logged and refused; the rest is served.
        Raises: StorageFailed: no metadata.
        """
        self.metadata.load()
        self.features.load()
        self.security.load(self.metadata)
        self._load_cluster()
        if self.member is not None:
            self.member.begin()
        self.configs.load()
        if not self.cluster.is_alone:
            self._follow_leaders()
        self.topics.load()
        folder_import.rename_stray_partitions(self.topics, self.logs, deleted_topics(self.metadata))
        self._forget_deleted_topics()
        self._recover()
        if self.cluster.is_alone:
            for _, coordinator, log, what in self._coordinators():
                self._loads.add(coordinator, log, what, log.used_partitions(self._has_or_had))
        self._note_ready()
        self._every("log.flush.offset.checkpoint.interval.ms", self.logs.checkpoints.write_all)
        self._every("log.flush.offset.checkpoint.interval.ms", self.logs.rebuild_indexes)
        self._every("producer.id.expiration.check.interval.ms", self.logs.expire_producers)
        self._every("replica.high.watermark.checkpoint.interval.ms", self._checkpoint_high_watermarks)
        self.timers.every(self.config["replica.high.watermark.checkpoint.interval.ms"], self.logs.check_locks)
        self.timers.every(self.config["replica.high.watermark.checkpoint.interval.ms"], self.logs.check_space)
        self.cleanup.start()
        self.metadata.watch(self.wake)
        if self.member is not None:
            self.cluster.observe(lambda node_id: self._note_ready())
            self.member.start()

    def prepare_stop(self) -> None:
        """Finish sliced work; call it before waiting for the last jobs.

        Folders not created yet are created on first use of their partitions.
        """
        self._stopping = True
        if self.member is not None:
            self.member.prepare_stop()
        self.metadata.stop()
        self.moves.stop()
        self.recovery.stop()
        self._loads.stop()
        self._slices.finish()
        self.logs.stop_creating()

    def stop(self) -> None:
        """Flush, write the checkpoints and the mark of a clean stop; a second call does nothing.

        No job may be running: see `prepare_stop`.
        """
        for _ in self._note_high_watermarks():
            pass
        self.configs.loggers.restore()
        self.logs.close()

    def erase(self) -> None:
        """Delete all topics, records, groups, offsets, dynamic settings, ACLs and SCRAM users; call
        `stop` next, after the jobs.

        Producer ids and the leader epoch stay above those that clients know. Blocks.
        Raises: StorageFailed: nothing is deleted.
        """
        for topic in self.topics.clear([*self.configs.keys(), *self.security.keys()]):
            self.backlogs.forget(topic)
            for partition in topic.partitions:
                self._delete_partition(partition)

    def open_log(self, topic: str, index: int) -> Log:
        """Open the log of a partition, for `Partition` only.

        Raises: StorageFailed. LogRecovering.
        """
        current = self.topics.get(topic)
        self.recovery.check(topic, index)
        for old in self._deleting.get(topic, ()):
            if index < len(old.partitions):
                self._delete_partition(old.partitions[index])
        return self.logs.open(topic, index, current.id, current.log_config)

    def is_recovering(self, topic: str, index: int) -> bool:
        """Whether the log of a partition is being recovered."""
        return self.recovery.is_pending(topic, index)

    def _load_cluster(self) -> None:
        if isinstance(self.cluster, ClusterBrokers):
            self.logs.checkpoints.are_sole_replicas = False
            self.cluster.apply(self.metadata.with_prefix(BROKERS_PREFIX))
            self.metadata.observe(BROKERS_PREFIX, self.cluster.apply)
            self.cluster.observe(lambda node_id: self.purgatory.wake(BROKERS_CHANGED))
            record_forms.to_registrations(self.metadata, self.logs, self.node_id)
            record_forms.check_topics_known(self.metadata, self.logs)
            return
        record_forms.to_numbers(self.metadata, self.node_id)
        folder_import.import_folders(self.metadata, self.logs, self.config)
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        entry, is_unclean = self.metadata.get(EPOCH_KEY), self.logs.was_unclean
        stored = json.loads(entry) if entry is not None else 0
        self.leader_epoch = self._issued.begin_leader_epoch(self.cluster_id, stored, is_unclean=is_unclean)
        if is_unclean:
            logger.warning("the last stop was not clean: checking the logs, leader epoch is now %d", self.leader_epoch)
        if entry is None or self.leader_epoch != stored:
            self.metadata.commit_now({EPOCH_KEY: json.dumps(self.leader_epoch).encode()})

    def _recover(self) -> None:
        unrecovered = set(self.logs.unrecovered())
        if unrecovered:
            self.recovery.start(
                partition
                for topic in self.topics
                for partition in topic.partitions
                if (topic.name, partition.index) in unrecovered
            )

    def _log_to_recover(self, partition: Partition) -> tuple[Storage, LogToRecover]:
        topic = self.topics.get(partition.topic)
        return self.logs.log_to_recover(topic.name, partition.index, topic.id, topic.log_config)

    def _log_settled(self, partition: Partition) -> None:
        self.purgatory.wake(partition)
        if partition.is_leader and not self.cluster.is_alone:
            self.replicas.open_soon(partition)
        self._loads.log_settled(partition)
        self._note_ready()

    def _note_ready(self) -> None:
        if self.member is not None and self.recovery.is_done:
            self.member.recovered()
            if not self.member.is_unfenced:
                return
        if self.recovery.is_done and self._loads.is_done and not self.ready.done:
            for topic in self.topics:
                self.backlogs.configure(topic)  # not before: without committed offsets all is unread
            self.moves.resume()
            self.ready.resolve(None)
            self.purgatory.wake(self.ready)

    def _coordinators(self) -> Iterator[tuple[str, Coordinator, Any, str]]:
        """Yield topic, coordinator and log of each coordinator, and what it keeps."""
        yield OFFSETS_TOPIC, self.groups, self._group_log, "groups"
        yield TRANSACTIONS_TOPIC, self.transactions, self._transaction_log, "transactions"
        yield SHARE_TOPIC, self.share.coordinator, self._share_log, "share groups"

    def _follow_leaders(self) -> None:
        """Let the coordinators have what this broker leads of their topics."""
        for row in self._coordinators():
            self._loads.follow(*row)
        self.replica_events += [self._loads, self.share]

    def _has_or_had(self, topic: str, index: int) -> bool:
        return self.logs.has(topic, index) or self.logs.unavailable_reason(topic, index) is not None

    def _partitions_created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        self._topic_configured(topic)
        self._group_topics.note_change()
        for partition in partitions if self.logs.offline else ():
            if partition.has_replica:
                self.logs.expect(topic.name, partition.index)
        if not topic.is_internal:  # its folders are created on first append
            self._slices.add(self._make_folders(topic, list(partitions)))

    def _topic_configured(self, topic: Topic) -> None:
        self._ineffective.warn_of(topic)
        self.backlogs.configure(topic)
        self.cleanup.report_again(topic)

    def _make_folders(self, topic: Topic, partitions: Sequence[Partition]) -> SlicedWork[None]:
        for partition in partitions:
            if not partition.has_replica:
                continue
            if self._stopping or self.topics.find(topic.name) is not topic:
                return  # deleted meanwhile
            if not self.logs.has(topic.name, partition.index):
                self.logs.create(topic.name, partition.index, topic.id)
            yield None

    def _topic_deleted(self, topic: Topic) -> None:
        self._deleting.setdefault(topic.name, []).append(topic)
        self._group_topics.note_change()
        self.backlogs.forget(topic)
        keys = [(topic.name, partition.index) for partition in topic.partitions]
        self.recovery.drop(keys, lambda: self._slices.add(self._remove_folders(topic)))
        self._note_ready()
        self.groups.delete_topic(topic.name)
        self.share.topic_deleted(topic)
        for partition in topic.partitions:
            partition.note_removed()

    def _remove_folders(self, topic: Topic) -> SlicedWork[None]:
        for partition in topic.partitions:
            self._delete_partition(partition)
            yield None
        self._deleting[topic.name].remove(topic)
        if not self._deleting[topic.name]:
            del self._deleting[topic.name]
        self._forget_deleted_topics()

    def _forget_deleted_topics(self) -> None:
        if not self._deleting:
            self._deleted_topics.forget()

    def _delete_partition(self, partition: Partition) -> None:
        if not partition.deleted:
            self.moves.forget(partition)
            partition.mark_deleted()
            self.logs.delete(partition.topic, partition.index)
            self.cleanup.forget(partition)

    def _set_producer_expiration(self) -> None:
        self.logs.producer_expiration_ms = self.config[PRODUCER_EXPIRATION]

    def _after_effect(self, call: Callable[[], None]) -> None:
        """Call once all slices before are done, so that topics have the broker's new values."""
        self._slices.add(_one_step(call))

    def _wake(self, promise: Promise[object]) -> None:
        self.purgatory.wake(promise)

    def _every(self, setting: str, steps: Callable[[], SlicedWork[Any]]) -> None:
        """Run upkeep of all logs in slices at an interval; skip it while the last run is
        unfinished.
        """
        name = f"{setting} {steps.__name__}"
        self.timers.every(self.config[setting], lambda: self._slices.add_once(name, steps()))

    def _checkpoint_high_watermarks(self) -> SlicedWork[None]:
        yield from self._note_high_watermarks()
        self.logs.checkpoints.save_high_watermarks()

    def _note_high_watermarks(self) -> SlicedWork[None]:
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.is_open:
                    self.logs.checkpoints.note_high_watermark(topic.name, partition.index, partition.high_watermark)
                    yield None


def node_id(config: Config) -> int:
    """Return the number of this broker: `node.id`, or `broker.id` if only that is set."""
    name = "broker.id" if config.is_set("broker.id") and not config.is_set("node.id") else "node.id"
    return int(config[name])


def topic_defaults(config: Config) -> set[str]:
    """Return the broker settings from which topics derive values that they keep."""
    return {synonym.name for row in config.catalog.topic.values() for synonym in row.synonyms} | {DECOMPRESSED_MAX}


def _one_step(call: Callable[[], None]) -> SlicedWork[None]:
    call()
    yield None


def _no_wake(call: Callable[[], None]) -> None:
    raise AssertionError("nobody can call on the owner thread yet")


def _no_endpoints(listener: str) -> tuple[str, int]:
    raise AssertionError("no listener is open yet")
