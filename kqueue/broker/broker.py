"""The broker: composes logs, groups and metadata for the API handlers. Source: Kafka's
ReplicaManager.

It knows no wire protocol, socket or event loop. One thread owns it. Clock, randomness, storage and
jobs are passed in. A part is built by its package, and names in its constructor what it needs.
"""

from __future__ import annotations

import random

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.jobs import Jobs
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.broker.access.security import BrokerSecurity
from kqueue.broker.client_telemetry.subscriptions import open_telemetry
from kqueue.broker.cluster.replica_manager import Replicas
from kqueue.broker.configs.dynamic_configs import DynamicConfigs, IneffectiveSettings
from kqueue.broker.coordinators.broker_coordinators import Coordinators
from kqueue.broker.coordinators.coordinator_loads import CoordinatorLoads
from kqueue.broker.fetch.session_caches import FetchSessionCaches
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.metadata.brokers import Membership
from kqueue.broker.metadata.identity import BrokerIdentity
from kqueue.broker.produce.delayed_produce import ProduceHost
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.replicas.sole_epoch import begin_sole_epoch
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.share.share_groups import ShareGroups
from kqueue.broker.tier.opening import open_tier
from kqueue.broker.topics import folder_import, record_forms
from kqueue.broker.topics.deleted_topics import deleted_topics
from kqueue.broker.topics.topics import SHARE_TOPIC, Topics
from kqueue.broker.upkeep.log_upkeep import LogUpkeep
from kqueue.log.manager import LogManager
from kqueue.metadata.store import MetadataStore


class Broker:
    """One broker without the network. Call `start` first, `stop` last; both block the owner thread.

    `logs` must be open, `store` ready to read. The network layer sets `identity.endpoints`,
    `identity.listeners` and `scheduler.wake`.

    Attributes:
        config: the settings of the broker, with the changes since its start.
        scheduler: clock, timers, purgatory, slices, jobs.
        logs: the logs in the data folders.
        identity: node id, rack, advertised addresses.
        metadata: records of the store, brokers of the cluster, features, producer ids.
        security: authorizer, ACLs, quotas, users, tokens.
        topics: all topics, with their partitions.
        configs: settings that change at run time.
        telemetry: metrics that clients push.
        produce: what all Produce requests share.
        fetch_sessions: fetch sessions of consumers and followers.
        coordinators: groups, transactions, and the loads of all coordinators.
        upkeep: recovery, cleanup, moves and deletions of logs.
        replicas: what all partitions share; changes of replicas and leaders.
        share: share groups.
        tier: tiered storage; None: remote.log.storage.system.enable=false.
        ready: resolved once all logs are recovered and all coordinators loaded.
        member: its part in a cluster, set before the start; None: a single broker.
    """

    member: Membership | None = None

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
        """Raises: SettingError: of the tier's URL."""
        self.config, self.logs = config, logs
        self._issued = issued = issued or IssuedIds()
        self.scheduler = scheduler = Scheduler(clock, jobs, timers)
        timers, purgatory, slices = scheduler.timers, scheduler.purgatory, scheduler.slices
        self.identity = identity = BrokerIdentity(config, logs.cluster_id)
        self.security = BrokerSecurity.of(config, clock, jobs, timers)
        self.metadata = metadata = BrokerMetadata(config, identity, store, scheduler, issued, logs.make_room)
        host = PartitionHost(config, metadata.cluster, scheduler)
        self.topics = topics = Topics(config, metadata.cache, host, rng)
        self.configs = configs = DynamicConfigs(
            config, identity.node_id, metadata.cache, topics, scheduler.call_after_slices, jobs, logs.sealer
        )
        self.telemetry = open_telemetry(config, configs.client_metrics, clock, rng, timers, jobs, purgatory.wake)
        topics.follow_defaults(slices)
        self.produce = ProduceHost(clock, topics, flush_before_visible=host.flush_before_visible)
        self.fetch_sessions = FetchSessionCaches(config, topics, scheduler, identity.node_id, rng)
        appends, set_values = host.append_scheduler, configs.groups.set_values
        loads = CoordinatorLoads(appends, purgatory, timers, clock, self._note_ready)
        epochs = issued.producer_epochs(logs.cluster_id)
        self.coordinators = Coordinators(config, topics, metadata, set_values, scheduler, loads, epochs, rng)
        groups = self.coordinators.groups
        self.upkeep = LogUpkeep(
            config, topics, logs, metadata, groups, scheduler,
            on_settled=self._log_settled, on_dropped=self._note_ready,
        )  # fmt: skip
        self.replicas = Replicas(host, topics, logs, self.upkeep, metadata, scheduler)
        deletion = self.upkeep.deletion
        self.share = share = ShareGroups(config, topics, metadata, configs.groups, deletion, appends, scheduler)
        groups.share.states = share
        self.tier = open_tier(config, topics, logs, self.upkeep, metadata, host, scheduler, rng)
        self.coordinators.load_with(SHARE_TOPIC, share.coordinator, share.log, "share groups")
        ineffective = IneffectiveSettings(config.catalog, metadata.cluster)
        # The tier before the upkeep: the entry of a deleted topic stays while it has objects there.
        topics.observers += [ineffective, *([self.tier] if self.tier else []), self.upkeep, self.coordinators, share]
        self.ready: Promise[None] = Promise()

    def start(self) -> None:
        """Load metadata; begin to recover logs and to load groups, which ends with `ready`.

        Until then each log is served once it is recovered, and each group once it is loaded. What
        can't be recovered is logged and refused; the rest is served.
        Raises: StorageFailed: no metadata.
        """
        metadata, is_alone = self.metadata, self.metadata.cluster.is_alone
        # Each step needs those before it: users and ACLs are in the metadata, topics are brought
        # into one form before a member registers, and settings are in force before a topic is made
        # from its record.
        metadata.load()
        self.security.load(metadata.cache)
        self._prepare_topics()
        if self.member is not None:
            self.member.begin()
        self.configs.load()
        if not is_alone:
            # Before the topics are loaded, which tells of the first leaderships.
            self.follow_leaders()
        self.topics.load()
        # Only once all topics are known: a folder of none of them is a stray.
        folder_import.rename_stray_partitions(self.topics, self.logs, deleted_topics(metadata.cache))
        if self.tier is not None:
            self.tier.start(is_alone=is_alone)
        self.upkeep.folders.forget_deleted_topics()
        self.upkeep.begin_recovery()
        if is_alone:
            self.coordinators.load(self.logs)
        self._note_ready()
        self.upkeep.start()
        # Not earlier: changes by others need all that was built above.
        metadata.cache.watch(self.scheduler.wake)
        if self.member is not None:
            metadata.cluster.observe(lambda node_id: self._note_ready())
            self.member.start()

    def follow_leaders(self) -> None:
        """Let coordinators and share groups have what this broker leads."""
        self.coordinators.follow_leaders()
        if self.tier is not None:
            self.replicas.host.replica_events.append(self.tier)
        self.replicas.host.replica_events += [self.coordinators.loads, self.share]

    def prepare_stop(self) -> None:
        """Finish sliced work; call it before waiting for the last jobs.

        Folders not created yet are created on first use of their partitions.
        """
        if self.member is not None:
            self.member.prepare_stop()
        self.metadata.cache.stop()
        if self.tier is not None:
            self.tier.stop()
        self.upkeep.stop()
        self.coordinators.loads.stop()
        # Half-done work on many partitions is done to its end; after this nothing starts more.
        self.scheduler.slices.finish()
        self.logs.stop_creating()

    def stop(self) -> None:
        """Flush, write the checkpoints and the mark of a clean stop; a second call does nothing.

        No job may be running: see `prepare_stop`.
        """
        for _ in self.upkeep.timers.note_high_watermarks():
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
            self.upkeep.delete(topic)

    def _prepare_topics(self) -> None:
        """Bring the records of topics into the form of a single broker, or of a cluster."""
        metadata, records, logs = self.metadata, self.metadata.cache, self.logs
        node_id = self.identity.node_id
        if metadata.cluster.is_alone:
            record_forms.to_numbers(records, node_id)
            folder_import.import_folders(records, logs, self.config)
            begin_sole_epoch(self.replicas.host.sole_replica, records, logs, self._issued)
        else:
            logs.checkpoints.are_sole_replicas = False
            metadata.follow_brokers()
            record_forms.to_registrations(records, logs, node_id)
            record_forms.check_topics_known(records, logs)

    def _log_settled(self, partition: Partition) -> None:
        self.scheduler.purgatory.wake(partition)
        if partition.is_leader and not self.metadata.cluster.is_alone:
            self.replicas.open_soon(partition)
        self.coordinators.loads.log_settled(partition)
        self._note_ready()

    def _note_ready(self) -> None:
        upkeep = self.upkeep
        if self.member is not None and upkeep.recovery.is_done:
            self.member.recovered()
            if not self.member.is_unfenced:
                return
        if upkeep.recovery.is_done and self.coordinators.loads.is_done and not self.ready.done:
            for topic in self.topics:
                upkeep.backlogs.configure(topic)  # not before: without committed offsets all is unread
            upkeep.moves.resume()
            self.ready.resolve(None)
            self.scheduler.purgatory.wake(self.ready)
