"""Reassignments: other replicas for a partition, step by step. Source: KIP-455.

While one runs, `replicas` are those of the target, then those to remove. It is finished by the
controller when the target can go on alone.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from kqueue.base.errors import InvalidReplicaAssignment
from kqueue.replication.elections import elect, elect_unclean, raise_epochs, with_isr
from kqueue.replication.errors import NoReassignmentInProgress
from kqueue.replication.placement import check_replicas
from kqueue.replication.registrations import BrokerRegistration, ClusterImage, PartitionRegistration


class Reassignment(NamedTuple):
    """A reassignment that runs."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def start_reassignment(
    partition: PartitionRegistration, target: Sequence[int], brokers: Mapping[int, BrokerRegistration]
) -> PartitionRegistration:
    """Return the partition on its way to the replicas `target`.

    One that runs already is replaced: replicas that it was adding and that `target` lacks are
    removed. The same replicas in another order are in place at once.

    Raises: InvalidReplicaAssignment: see `check_replicas`.
    """
    check_replicas(target, brokers)
    settled = [node for node in partition.replicas if node not in partition.adding]
    adding = tuple(node for node in target if node not in settled)
    removing = tuple(node for node in partition.replicas if node not in target)
    replicas = (*target, *removing)
    after = partition._replace(replicas=replicas, adding=adding, removing=removing)
    return raise_epochs(partition, _in_order(after))


def cancel_reassignment(
    partition: PartitionRegistration, active: Container[int], min_isr: int, allow_unclean: bool = False
) -> PartitionRegistration:
    """Return the partition without the replicas that were being added.

    Raises:
        NoReassignmentInProgress: none runs.
        InvalidReplicaAssignment: no other replica is in sync, and `allow_unclean` is false.
    """
    if not partition.adding and not partition.removing:
        raise NoReassignmentInProgress("no reassignment of this partition is in progress")
    replicas = tuple(node for node in partition.replicas if node not in partition.adding)
    after = _with_replicas(partition, replicas, min_isr)
    if not after.isr and not after.elr:
        if not allow_unclean:
            raise InvalidReplicaAssignment(
                f"the reassignment can't be cancelled: none of the replicas {', '.join(map(str, replicas))} is in "
                "sync; wait for one, or allow unclean.leader.election.enable"
            )
        after = elect_unclean(after, active)
    elif after.leader not in after.isr:
        after = elect(after, active, min_isr)
    return raise_epochs(partition, after)


def is_complete(partition: PartitionRegistration, min_isr: int) -> bool:
    """Whether a reassignment runs and its target can go on alone.

    All added replicas are in sync, and enough of the target to commit. A replica of the target that
    was one before, and is down, does not hold it up.
    """
    if not partition.adding and not partition.removing:
        return False
    target = [node for node in partition.replicas if node not in partition.removing]
    in_sync = [node for node in target if node in partition.isr]
    return set(partition.adding) <= set(in_sync) and len(in_sync) >= min(min_isr, len(target))


def complete_reassignment(
    partition: PartitionRegistration, active: Container[int], min_isr: int
) -> PartitionRegistration:
    """Return the partition with the replicas of the target only; epochs are not raised yet.

    A leader that is removed is replaced. Nothing changes if nobody could lead then.
    """
    replicas = tuple(node for node in partition.replicas if node not in partition.removing)
    after = _with_replicas(partition, replicas, min_isr)
    if after.leader not in after.isr:
        after = elect(after, active, min_isr)
    return partition if after.leader < 0 else after


def reassignments(image: ClusterImage) -> list[Reassignment]:
    """Return the reassignments that run, by topic and index."""
    return [
        Reassignment(name, index, partition.replicas, partition.adding, partition.removing)
        for name, topic in sorted(image.topics.items())
        for index, partition in enumerate(topic.partitions)
        if partition.adding or partition.removing
    ]


def _with_replicas(partition: PartitionRegistration, replicas: tuple[int, ...], min_isr: int) -> PartitionRegistration:
    after = partition._replace(replicas=replicas, adding=(), removing=())
    return with_isr(after, partition.isr, min_isr)


def _in_order(partition: PartitionRegistration) -> PartitionRegistration:
    isr = tuple(node for node in partition.replicas if node in partition.isr)
    elr = tuple(node for node in partition.replicas if node in partition.elr)
    return partition._replace(isr=isr, elr=elr)
