"""Events of this broker's replicas: who leads a partition has changed.

Subscribers join `PartitionHost.replica_events`. They are called on the owner thread, one after
another, after the partition has its new registration. A single broker leads every partition for
ever, and emits no event.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

P = TypeVar("P", contravariant=True)


class ReplicaEvents(Protocol[P]):
    """Called for partitions of which this broker has, or had, a replica. `P`: `Partition`."""

    def became_leader(self, partition: P) -> None:
        """This broker leads the partition in a new leader epoch; it may have led the one before."""

    def became_follower(self, partition: P) -> None:
        """The partition has another leader (`partition.leader`, maybe `NO_LEADER`), or the same in
        a new leader epoch; or it names this broker, which is fenced and leads nothing.
        """

    def removed(self, partition: P) -> None:
        """This broker has no replica any more, or the topic is deleted."""
