"""The assignment of new partitions' replicas to brokers: as a client says, or by
`replication.placement`.

In a single broker each partition's only replica is there. Source: SPEC S6.2, Kafka's
ReplicationControlManager.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kqueue.base.config import Config
from kqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from kqueue.base.text import counted
from kqueue.replication.placement import check_assignment, new_partition, place_replicas
from kqueue.replication.registrations import PartitionRegistration

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition_host import PartitionHost

DEFAULT_FACTOR = -1
Assignments = Sequence[Sequence[int]]


class ReplicaAssignment:
    """Gives new partitions of topics their replicas."""

    def __init__(self, config: Config, host: PartitionHost, rng: random.Random) -> None:
        self._config = config
        self._host = host
        self._rng = rng

    def of_new_topic(
        self, count: int, factor: int, assigned: Mapping[int, Sequence[int]]
    ) -> tuple[PartitionRegistration, ...]:
        """Return the partitions of a new topic.

        Args:
            factor: number of replicas of each; -1: the broker's default.
            assigned: the replicas by partition, instead of `factor`; empty: they are placed.
        Raises: InvalidReplicationFactor: more than there are brokers. InvalidReplicaAssignment.
        """
        if sorted(assigned) != list(range(len(assigned))):
            raise InvalidReplicaAssignment("assigned partitions must be numbered from 0 without gaps")
        assignments = [assigned[index] for index in range(count)] if assigned else None
        if self._host.cluster.is_alone:
            if factor not in (DEFAULT_FACTOR, 1):
                raise InvalidReplicationFactor(f"1 broker can hold 1 replica, not {factor}")
            return self._sole(count, assignments)
        wanted = self._config["default.replication.factor"] if factor == DEFAULT_FACTOR else factor
        return self._place(count, wanted, assignments, None, 0)

    def of_growth(
        self, have: Sequence[PartitionRegistration], count: int, assignments: Assignments | None = None
    ) -> tuple[PartitionRegistration, ...]:
        """Return `count` more partitions of a topic that has the partitions `have`.

        Raises: as `of_new_topic`.
        """
        if assignments is not None and len(assignments) != count:
            raise InvalidReplicaAssignment(
                f"expected {counted(count, 'assignment')} for as many new partitions, found {len(assignments)}"
            )
        if self._host.cluster.is_alone:
            return self._sole(count, assignments)
        factor = len(have[0].replicas)
        return self._place(count, factor, assignments, factor, len(have))

    def _sole(self, count: int, assignments: Assignments | None) -> tuple[PartitionRegistration, ...]:
        for replicas in assignments or ():
            check_replicas(replicas, self._host.node_id)
        return (self._host.sole_replica.registration,) * count

    def _place(
        self, count: int, factor: int, assignments: Assignments | None, fixed: int | None, first: int
    ) -> tuple[PartitionRegistration, ...]:
        brokers = {broker.id: broker for broker in self._host.cluster.all()}
        if assignments is None:
            assignments = place_replicas(brokers, count, factor, self._rng, first)
        else:
            check_assignment(assignments, brokers, fixed)
        return tuple(new_partition(replicas, brokers) for replicas in assignments)


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """Check that `replicas` is this broker, which is the only one. Raises
    InvalidReplicaAssignment: it is empty, or names another broker, or this one twice.
    """
    if not replicas:
        raise InvalidReplicaAssignment("the list of replicas is empty")
    other = next((broker for broker in replicas if broker != node_id), None)
    if other is not None:
        raise InvalidReplicaAssignment(f"broker {other} is not registered; broker {node_id} is the only one")
    if len(replicas) > 1:
        raise InvalidReplicaAssignment(f"broker {node_id} is named more than once in a list of replicas")
