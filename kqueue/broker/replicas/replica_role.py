"""The role of this broker's replica of a partition in a cluster: leader, follower, or none.

It keeps the partition's registration, and as a leader what it knows of its followers
(`replication.leader_replica`); `Partition` asks it where a single broker has a plain answer.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kqueue.base.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeader,
    UnknownLeaderEpoch,
)
from kqueue.log.log import Log
from kqueue.replication.elections import effective_min_isr
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.leader_replica import LeaderReplica
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration

logger = logging.getLogger("kqueue.broker")
NO_EPOCH = -1
_UNKNOWN = PartitionRegistration((), (), NO_LEADER, NO_EPOCH, -1)


class Change(NamedTuple):
    """What has changed for this broker. `leads`: it leads now, or in a new epoch.

    `follows`: another broker leads now, or in a new epoch, or nobody does, or this broker must not.
    `removed`: it had a replica.
    """

    leads: bool = False
    follows: bool = False
    removed: bool = False


class ReplicaRole:
    """The role of one replica. It is itself a key of the purgatory, woken when the leader's log
    grows or the role changes: the followers' fetches wait for it.

    Attributes:
        registration: the newest one.
        is_leader: whether this broker leads now.
        leadership: as a leader whose log is open; else None.
        min_isr: `min.insync.replicas` of the topic.
    """

    __slots__ = ("_name", "_node_id", "_too_few", "is_leader", "leadership", "min_isr", "registration")

    def __init__(self, name: str, node_id: int, min_isr: int) -> None:
        self._name = name
        self._node_id = node_id
        self._too_few = False
        self.registration = _UNKNOWN
        self.leadership: LeaderReplica | None = None
        self.min_isr = min_isr
        self.is_leader = False

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica."""
        return self._node_id in self.registration.replicas

    def apply(self, registration: PartitionRegistration, now_ms: float, *, may_lead: bool = True) -> Change | None:
        """Take over a registration; None: it is not newer (rule 8).

        Args: may_lead: see `review`.
        """
        old = self.registration
        if registration.partition_epoch <= old.partition_epoch:
            return None
        had_replica, self.registration = self.has_replica, registration
        is_new = (old.leader, old.leader_epoch) != (registration.leader, registration.leader_epoch)
        if not is_new and self.leadership is not None:
            self.leadership.applied(registration, now_ms)
        change = self._settle(is_new or not had_replica, may_lead)
        return change if self.has_replica else Change(removed=had_replica)

    def review(self, may_lead: bool) -> Change:
        """Begin or cease to lead where the registration names this broker as leader.

        Args: may_lead: whether this broker is unfenced in its present session. One that is not may
            be registered as leader by a former life, or by a broker that knows of that life only;
            others can lead by now, and its log can lack what it confirmed (rules 1, 2 and 9).
        """
        return self._settle(False, may_lead)

    def _settle(self, is_new: bool, may_lead: bool) -> Change:
        leads = may_lead and self.registration.leader == self._node_id
        is_new |= leads != self.is_leader
        if is_new:
            self.leadership = None
        self.is_leader = leads
        self._report_too_few()
        if is_new and self.has_replica:
            logger.info("%s: %s", self._name, self._described())
        return Change(leads=is_new and leads, follows=is_new and not leads)

    def _described(self) -> str:
        now = self.registration
        if self.is_leader:
            isr = ", ".join(map(str, now.isr))
            return f"leads in epoch {now.leader_epoch}, in sync: {isr}"
        if now.leader == NO_LEADER:
            return f"no leader in epoch {now.leader_epoch}"
        if now.leader == self._node_id:
            return f"does not lead in epoch {now.leader_epoch} while this broker is fenced"
        return f"follows broker {now.leader} in epoch {now.leader_epoch}"

    def lead(self, log: Log, high_watermark: int, now_ms: float) -> None:
        """Begin to lead with an open log: rule 9."""
        if self.is_leader and self.leadership is None:
            registration = self.registration
            self.leadership = LeaderReplica(self._node_id, registration, log.end_offset, high_watermark, now_ms)

    # --- as leader

    def check_leader(self) -> None:
        """Raises NotLeader: this broker does not lead the partition (rule 10)."""
        if not self.is_leader:
            leader = self.registration.leader
            if leader == self._node_id:
                raise NotLeader(f"broker {leader} is registered as leader of {self._name}, but fenced")
            raise NotLeader(f"{f'broker {leader}' if leader != NO_LEADER else 'no broker'} leads {self._name}")

    def leading_epoch(self) -> int:
        """Return the epoch that appends are stamped with. Raises NotLeader."""
        if not self.is_leader:
            self.check_leader()
        return self.registration.leader_epoch

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the in-sync set is too small to commit."""
        return len(self.registration.isr) < effective_min_isr(self.registration, self.min_isr)

    def check_in_sync(self) -> None:
        """Check before an append with acks=all. Raises NotEnoughReplicas: rule 11."""
        if self.is_leader and self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"{self._name}: only {len(self.registration.isr)} replicas are in sync, and min.insync.replicas is "
                f"{self.min_isr}"
            )

    def check_waiting(self) -> None:
        """Check on behalf of an append that waits to be committed.

        Raises: NotEnoughReplicasAfterAppend: the in-sync set has become too small (rule 13).
        """
        if self.is_under_min_isr:
            raise NotEnoughReplicasAfterAppend(
                f"{self._name}: the records were appended, but only {len(self.registration.isr)} replicas are in sync "
                f"now, and min.insync.replicas is {self.min_isr}"
            )

    def set_min_isr(self, min_isr: int) -> None:
        """Set the topic's `min.insync.replicas`."""
        self.min_isr = min_isr
        self._report_too_few()

    def _report_too_few(self) -> None:
        """Log once that the in-sync set is too small, and once that it is not any more."""
        too_few = self.is_leader and self.is_under_min_isr
        if too_few and not self._too_few:
            isr = self.registration.isr
            logger.warning(
                "%s: too few replicas are in sync for acks=all: %d (%s); min.insync.replicas is %d",
                self._name, len(isr), ", ".join(map(str, isr)) or "none", self.min_isr,
            )  # fmt: skip
        elif self._too_few and not too_few and self.is_leader:
            logger.warning("%s: enough replicas are in sync again", self._name)
        self._too_few = too_few


def check_epoch(name: str, current: int, epoch: int) -> None:
    """Check the leader epoch of a request; -1: it has none.

    Raises: FencedLeaderEpoch, UnknownLeaderEpoch: older or newer than `current`. Source: KIP-320.
    """
    if epoch in (NO_EPOCH, current):
        return
    message = f"{name} is led in epoch {current}, the request names {epoch}"
    raise FencedLeaderEpoch(message) if epoch < current else UnknownLeaderEpoch(message)
