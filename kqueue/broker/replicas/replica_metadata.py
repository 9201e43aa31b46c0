"""The metadata of this broker's replica of a partition, in a cluster."""

from __future__ import annotations

import logging

from kqueue.base import events
from kqueue.base.errors import FencedLeaderEpoch, NotEnoughReplicas, UnknownLeaderEpoch
from kqueue.replication.elections import effective_min_isr
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration

logger = logging.getLogger("kqueue.broker")
NO_EPOCH = -1
_UNKNOWN = PartitionRegistration((), (), NO_LEADER, NO_EPOCH, -1)


class ReplicaMetadata:
    """The newest registration of a partition, and what this broker is in it.

    One object for as long as the partition is known here, whether this broker leads or follows. It
    is itself a key of the purgatory, woken when the leader's log grows or the role changes: the
    followers' fetches wait for it.

    Attributes:
        registration: the newest one.
        min_isr: `min.insync.replicas` of the topic.
    """

    __slots__ = ("_too_few", "min_isr", "name", "node_id", "registration")

    def __init__(self, name: str, node_id: int, min_isr: int) -> None:
        self.name = name
        self.node_id = node_id
        self._too_few = False
        self.registration = _UNKNOWN
        self.min_isr = min_isr

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica."""
        return self.node_id in self.registration.replicas

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the in-sync set is too small to commit."""
        return len(self.registration.isr) < effective_min_isr(self.registration, self.min_isr)

    def check_in_sync(self) -> None:
        """Check as leader before an append with acks=all. Raises NotEnoughReplicas: rule 11."""
        if self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"{self.name}: only {len(self.registration.isr)} replicas are in sync, and min.insync.replicas is "
                f"{self.min_isr}"
            )

    def check_waiting(self) -> None:
        """Check on behalf of an append that waits to be committed.

        Raises: NotEnoughReplicasAfterAppend: the in-sync set has become too small (rule 13).
        """
        if self.is_under_min_isr:
            raise NotEnoughReplicasAfterAppend(
                f"{self.name}: the records were appended, but only {len(self.registration.isr)} replicas are in sync "
                f"now, and min.insync.replicas is {self.min_isr}"
            )

    def log_too_few(self, is_leader: bool) -> None:
        """Log once that the in-sync set is too small, and once that it is not any more."""
        too_few = is_leader and self.is_under_min_isr
        if too_few and not self._too_few:
            isr = self.registration.isr
            events.ISR_TOO_SMALL.log(
                logger,
                "%s: too few replicas are in sync for acks=all: %d (%s); min.insync.replicas is %d",
                partition=self.name,
                in_sync=len(isr),
                replicas=", ".join(map(str, isr)) or "none",
                min_in_sync=self.min_isr,
            )
        elif self._too_few and not too_few and is_leader:
            events.ISR_LARGE_ENOUGH.log(logger, "%s: enough replicas are in sync again", partition=self.name)
        self._too_few = too_few


def check_epoch(name: str, current: int, epoch: int) -> None:
    """Check the leader epoch of a request; -1: it has none.

    Raises: FencedLeaderEpoch, UnknownLeaderEpoch: older or newer than `current`. Source: KIP-320.
    """
    if epoch in (NO_EPOCH, current):
        return
    message = f"{name} is led in epoch {current}, the request names {epoch}"
    raise FencedLeaderEpoch(message) if epoch < current else UnknownLeaderEpoch(message)
