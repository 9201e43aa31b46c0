"""The parts that make a broker the member of a cluster: registration, controller, in-sync sets.

Its listeners open before it is unfenced: clients that know only its address find the others by it.
They get no leader of it meanwhile, as it leads nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from kqueue.base.errors import StorageFailed
from kqueue.base.promise import Promise
from kqueue.broker.broker import Broker
from kqueue.broker.cluster.controller import Controller
from kqueue.broker.cluster.failed_logs import FailedLogs
from kqueue.broker.cluster.folder_identity import FolderIdentity
from kqueue.broker.cluster.isr_changes import IsrChanges
from kqueue.broker.cluster.registration import BrokerProcess, LogsFound, Registration
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.metadata.store import ClusterStore, Session
from kqueue.replication.config import MemberConfig
from kqueue.replication.registrations import Endpoint


class Member:
    """A broker's part in its cluster; made before the broker starts. Implements `Membership`.

    It takes the whole broker, as it is above it: it joins six of its parts, its settings and its
    logs. None of them knows a `Member`.
    Thread: owner thread.
    """

    def __init__(self, broker: Broker, store: ClusterStore, rng: random.Random) -> None:
        assert isinstance(broker.metadata.cache, ClusterMetadata), "a broker without kqueue.cluster.store"
        assert isinstance(broker.metadata.cluster, ClusterBrokers)
        self._broker = broker
        self._metadata = broker.metadata.cache
        self._cluster = broker.metadata.cluster
        self._is_announced = False
        config, logs = broker.config, broker.logs
        jobs, timers, clock = broker.scheduler.jobs, broker.scheduler.timers, broker.scheduler.clock
        identity = FolderIdentity(
            self._cluster.node_id,
            self._metadata,
            logs.registration_marks,
            logs.write_registration_mark,
            logs.location,
            bool(logs.partition_folders()),
        )
        self.registration = Registration(
            store,
            self._metadata,
            self._cluster,
            MemberConfig.of(config),
            jobs,
            identity,
            BrokerProcess(rng.randbytes(16).hex(), broker.identity.rack, self._listeners, logs.appended_total),
        )
        self.controller = Controller(config, store, self._metadata, self._cluster, self.registration, jobs)
        self.isr_changes = IsrChanges(
            MemberConfig.of(config),
            self._metadata,
            self._cluster,
            broker.topics,
            self.registration,
            timers,
            clock,
        )
        self.failed_logs = FailedLogs(self._metadata, self._cluster, broker.topics, self.registration, timers, clock)
        broker.replicas.on_log_failed = self.failed_logs.note
        broker.replicas.host.replica_events += [self.isr_changes, self.failed_logs]
        broker.replicas.on_isr_progress = self.isr_changes.consider
        broker.replicas.may_lead = lambda: self.is_unfenced
        self._cluster.observe(self._broker_changed)
        self.registration.observe_session(self._session_began)

    @property
    def is_unfenced(self) -> bool:
        return self.registration.is_unfenced

    @property
    def store_error(self) -> StorageFailed | None:
        return self.registration.store_error

    def begin(self) -> None:
        self.registration.begin()

    def start(self) -> None:
        self.registration.start(self._broker.scheduler.timers)
        self.controller.start(self._broker.scheduler.timers)
        self.isr_changes.start()

    def recovered(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            logs, recovery = self._broker.logs, self._broker.upkeep.recovery
            logs_at_start = LogsFound(
                logs.directory_ids,
                logs.stopped_epochs,
                recovery.is_intact,
                self._broker.replicas.host.flush_before_visible,
                logs.has_new_folder,
                self._is_in_sync(),
            )
            self.registration.announce(logs_at_start)

    def leave(self) -> Promise[None]:
        """Begin the controlled shutdown. Returns: resolved once this broker leads nothing, and is
        in sync for nothing, that another one can take.

        Where `controlled.shutdown.enable` is false it is resolved at once.
        """
        relieved: Promise[None] = Promise()
        if not MemberConfig.of(self._broker.config).leaves_in_order:
            relieved.resolve(None)
            return relieved

        def look() -> None:
            if not relieved.done and not self._has_to_give():
                self._metadata.resolve(relieved, None)

        self._metadata.observe_refresh(look)
        self.registration.leave()
        look()
        return relieved

    def prepare_stop(self) -> None:
        self.isr_changes.stop()
        self.failed_logs.stop()
        self.controller.stop()

    def stop(self) -> None:
        """End the session; a second call does nothing. Blocks."""
        self.registration.end()

    def abandon(self) -> None:
        """Give no more signs of life, and leave the session to its timeout; `stop` does nothing
        any more.
        """
        self.registration.abandon()

    def _listeners(self) -> Mapping[str, Endpoint]:
        return self._broker.identity.listeners

    def _is_in_sync(self) -> bool:
        own = self._cluster.node_id
        sets = (partition.registration for topic in self._broker.topics for partition in topic.partitions)
        return any(own in one.isr or own in one.elr for one in sets)

    def _session_began(self, session: Session) -> None:
        self._broker.logs.broker_epoch = session.epoch
        self._broker_changed(self._cluster.node_id)  # nothing is led until the new session is unfenced

    def _broker_changed(self, node_id: int) -> None:
        # at the end of the turn: topics that changed with the broker's record are told after it
        if node_id == self._cluster.node_id:
            self._broker.scheduler.purgatory.defer(self._broker.replicas.review_leaders)

    def _has_to_give(self) -> bool:
        own = self._cluster.node_id
        others = {broker.id for broker in self._cluster.brokers() if broker.is_active and broker.id != own}
        return bool(others) and any(
            own in partition.isr and not others.isdisjoint(partition.isr)
            for topic in self._broker.topics
            for partition in topic.partitions
        )
