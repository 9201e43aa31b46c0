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
    """What a new registration changed for this broker. `leads`: it leads in a new epoch.

    `follows`: it has another leader, or the same in a new epoch. `removed`: it had a replica.
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

    __slots__ = ("_name", "_node_id", "_stale_epoch", "_too_few", "is_leader", "leadership", "min_isr", "registration")

    def __init__(self, name: str, node_id: int, min_isr: int) -> None:
        self._name = name
        self._node_id = node_id
        self._stale_epoch = NO_EPOCH
        self._too_few = False
        self.registration = _UNKNOWN
        self.leadership: LeaderReplica | None = None
        self.min_isr = min_isr
        self.is_leader = False

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica."""
        return self._node_id in self.registration.replicas

    def apply(self, registration: PartitionRegistration, now_ms: float, *, at_start: bool = False) -> Change | None:
        """Take over a registration; None: it is not newer (rule 8).

        Args: at_start: where it names this broker as leader, that was so in a former life, whose
            end the controller has not settled yet (rules 1 to 4). It leads from a later epoch on.
        """
        old = self.registration
        if registration.partition_epoch <= old.partition_epoch:
            return None
        had_replica, self.registration = self.has_replica, registration
        if at_start and registration.leader == self._node_id:
            self._stale_epoch = registration.leader_epoch
        is_new = (old.leader, old.leader_epoch) != (registration.leader, registration.leader_epoch)
        leads = registration.leader == self._node_id and registration.leader_epoch > self._stale_epoch
        if is_new or leads != self.is_leader:
            self.leadership = None
        elif self.leadership is not None:
            self.leadership.applied(registration, now_ms)
        self.is_leader = leads
        self._report_too_few()
        if not self.has_replica:
            return Change(removed=had_replica)
        is_event = is_new or not had_replica
        if is_event:
            logger.info("%s: %s", self._name, self._described())
        return Change(leads=is_event and leads, follows=is_event and not leads and registration.leader != self._node_id)

    def _described(self) -> str:
        now = self.registration
        if self.is_leader:
            isr = ", ".join(map(str, now.isr))
            return f"leads in epoch {now.leader_epoch}, in sync: {isr}"
        if now.leader == NO_LEADER:
            return f"no leader in epoch {now.leader_epoch}"
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
                raise NotLeader(f"broker {leader} led {self._name} before its start, and waits to be elected again")
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
            isr = ", ".join(map(str, self.registration.isr)) or "none"
            logger.warning(
                "%s: too few replicas are in sync for acks=all: %s; min.insync.replicas is %d",
                self._name, isr, self.min_isr,
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
