"""Changes of in-sync sets that this broker proposes, as the leader of partitions.

Rules 24 to 29. A follower that lags leaves at a check, made at half of `replica.lag.time.max.ms`;
one that has caught up joins when its fetch says so (`consider`). What is due for the partitions of
several topics goes into one commit, guarded by this broker's session, by the topics' records and by
those of the brokers that join: Kafka's AlterPartition, without the way to the controller.

A commit that was refused is rolled back, and proposed again if it still is due. Where nobody knows
whether the store took it, the new members keep counting for the high watermark until the metadata
tell (rule 28).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import Conflict, KqueueError, StorageFailed
from kqueue.base.timers import Timer, Timers
from kqueue.broker.cluster.registration import Registration
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topics
from kqueue.replication.config import MemberConfig, TopicReplication
from kqueue.replication.leader_replica import IsrProposal, LeaderReplica, accept_proposal
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    BrokerRegistration,
    PartitionRegistration,
    TopicRegistration,
)

TOPICS_MAX = 50
"""So many are committed at once; a conflict of one voids all, and then each goes alone."""
PARTITIONS_MAX = 1000
"""So many are looked at before other work goes on."""
RETRY_MS = 500
logger = logging.getLogger("kqueue.broker")


class _Proposed(NamedTuple):
    """A proposal in a commit."""

    partition: Partition
    leadership: LeaderReplica
    proposal: IsrProposal
    before: PartitionRegistration


class IsrChanges:
    """The proposals of one broker. Implements `ReplicaEvents`. Thread: owner thread.

    Attributes: shrinks, expansions: changes since the start by which a replica left, and joined;
        one may do both.
    """

    def __init__(
        self,
        settings: MemberConfig,
        metadata: ClusterMetadata,
        cluster: ClusterBrokers,
        topics: Topics,
        registration: Registration,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._lag_max_ms = settings.lag_max_ms
        self._metadata = metadata
        self._cluster = cluster
        self._topics = topics
        self._registration = registration
        self._timers = timers
        self._clock = clock
        self._led: dict[Partition, None] = {}  # with followers, in an order that a simulation repeats
        self._wanted: dict[str, dict[Partition, None]] = {}  # by topic
        self._alone: set[str] = set()  # topics whose last commit with others was refused
        self._committing: set[str] = set()
        self._next: Timer | None = None
        self._stopped = False
        self.shrinks = self.expansions = 0

    def start(self) -> None:
        """Look for lagging followers from now on."""
        self._timers.every(max(self._lag_max_ms / 2, 1), self._check)

    def stop(self) -> None:
        """Propose nothing more."""
        self._stopped = True

    def became_leader(self, partition: Partition) -> None:
        self.became_follower(partition)
        if len(partition.replicas) > 1:
            self._led[partition] = None

    def became_follower(self, partition: Partition) -> None:
        self._led.pop(partition, None)

    def removed(self, partition: Partition) -> None:
        self._led.pop(partition, None)

    def consider(self, partition: Partition) -> None:
        """Propose what may be due now: a follower's fetch was recorded (rule 25), or this broker
        begins to lead with an open log, which it confirms after an unclean election.
        """
        leadership = partition.replica.leadership
        if leadership is None:
            return
        now = leadership.registration
        if len(now.isr) == len(now.replicas) and not now.recovering:
            return
        # The same test as `LeaderReplica._joining`, without the brokers: each fetch of a follower
        # comes here, and mostly nothing is due.
        enough = max(leadership.high_watermark, leadership.leso)
        joins = any(follower.leo >= enough and node not in now.isr for node, follower in leadership.followers.items())
        if joins or now.recovering or now.elr:
            self.want(partition)

    def want(self, partition: Partition) -> None:
        """Propose what is due for a partition, with others of this turn."""
        self._wanted.setdefault(partition.topic, {})[partition] = None
        self._soon(0)

    def _check(self) -> None:
        for partition in self._led:
            self.want(partition)

    def _soon(self, ms: float) -> None:
        if self._next is None and not self._stopped:
            self._next = self._timers.at(self._clock.monotonic_ms() + ms, self._propose)

    # --- propose

    def _propose(self) -> None:
        self._next = None
        session = self._registration.session
        if self._stopped or session is None or not self._registration.is_unfenced:
            # A fenced broker leads nothing, so it has nothing to propose (rule 9).
            self._wanted.clear()  # the check comes again
            return
        brokers = {broker.id: broker for broker in self._cluster.all()}
        batch: dict[str, tuple[TopicRegistration, list[_Proposed]]] = {}
        looked_at = 0
        # One commit of a topic at a time: another would be made from the record that the first one
        # changes.
        for topic in [topic for topic in self._wanted if topic not in self._committing]:
            if looked_at >= PARTITIONS_MAX or len(batch) == TOPICS_MAX:
                self._soon(0)
                break
            partitions = self._wanted.pop(topic)
            looked_at += len(partitions)
            proposals = self._proposals(topic, partitions, brokers)
            if proposals is None:
                continue
            if topic in self._alone:
                self._alone.discard(topic)
                self._commit({topic: proposals})
            else:
                batch[topic] = proposals
        if batch:
            self._commit(batch)

    def _proposals(
        self, name: str, partitions: Mapping[Partition, None], brokers: Mapping[int, BrokerRegistration]
    ) -> tuple[TopicRegistration, list[_Proposed]] | None:
        """Return what the store shall have of a topic, and why; None: nothing is due."""
        topic, record = self._topics.find(name), self._metadata.get(TOPICS_PREFIX + name)
        if topic is None or record is None:
            return None
        min_isr = TopicReplication.of(topic.config).min_insync
        active = {broker.id: broker.epoch for broker in brokers.values() if broker.is_active}
        registration: TopicRegistration | None = None
        after: list[PartitionRegistration] = []
        proposed = []
        for partition in partitions:
            leadership = partition.replica.leadership
            if leadership is None:
                continue
            try:
                end = partition.log_end_offset
            except KqueueError:
                continue  # it is being recovered, or is offline: the check comes again
            now_ms = self._clock.monotonic_ms()
            proposal = leadership.proposal(end, now_ms, self._lag_max_ms, min_isr, active)
            if proposal is None:
                continue
            if registration is None:
                registration = TopicRegistration.from_bytes(name, record)
                after = list(registration.partitions)
            before = after[partition.index]
            changed = accept_proposal(before, proposal, brokers, min_isr)
            if changed is None:
                leadership.rejected(proposal)
                continue
            after[partition.index] = changed
            proposed.append(_Proposed(partition, leadership, proposal, before))
        if registration is None or not proposed:
            return None
        return registration._replace(partitions=tuple(after)), proposed

    def _commit(self, batch: Mapping[str, tuple[TopicRegistration, list[_Proposed]]]) -> None:
        self._committing.update(batch)
        puts = {TOPICS_PREFIX + name: registration.to_bytes() for name, (registration, _) in batch.items()}
        proposed = [each for _, of_topic in batch.values() for each in of_topic]
        # Guards: a broker that is fenced or registers again while the commit is under way must
        # not be added (rule 27).
        added = {f"{BROKERS_PREFIX}{node}" for each in proposed for node in each.proposal.added}

        def done(error: KqueueError | None) -> None:
            self._committing.difference_update(batch)
            for each in proposed:
                self._settle(each, error)
            # One topic's conflict voids the commit of all. Alone, the others do not wait for it
            # again.
            if error is not None and len(batch) > 1:
                self._alone.update(batch)
            if self._wanted:
                self._soon(0 if error is None or isinstance(error, Conflict) else RETRY_MS)

        self._metadata.commit(
            "change in-sync replicas", puts, done, guarded=sorted(added), by=self._registration.session
        )

    def _settle(self, each: _Proposed, error: KqueueError | None) -> None:
        if error is None:
            self._report(each)
            return
        if each.partition.replica.leadership is not each.leadership:
            return  # it leads no more, or in another epoch
        # The store may have taken the commit, and failed to say so (rule 28).
        if isinstance(error, StorageFailed):
            each.leadership.unknown(each.proposal)
        else:
            each.leadership.rejected(each.proposal)
        self._wanted.setdefault(each.partition.topic, {})[each.partition] = None

    def _report(self, each: _Proposed) -> None:
        self.shrinks += bool(set(each.before.isr) - set(each.proposal.isr))
        self.expansions += bool(set(each.proposal.isr) - set(each.before.isr))
        before, after = (",".join(map(str, isr)) for isr in (each.before.isr, each.proposal.isr))
        lagging = "".join(
            f"; broker {node} has not caught up for {behind_ms / 1000:.1f} s"
            for node, behind_ms in sorted(each.proposal.lagging.items())
        )
        if before != after:
            events.ISR_CHANGED.log(
                logger,
                "%s-%d: in sync [%s] -> [%s]%s",
                topic=each.partition.topic,
                partition=each.partition.index,
                before=before,
                after=after,
                lagging=lagging,
            )
