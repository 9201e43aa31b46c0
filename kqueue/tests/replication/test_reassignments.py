"""Reassignments: started, replaced, cancelled, completed, listed. KIP-455."""

import pytest

from kqueue.base.errors import InvalidReplicaAssignment
from kqueue.replication.errors import NoReassignmentInProgress
from kqueue.replication.reassignments import (
    Reassignment,
    cancel_reassignment,
    complete_reassignment,
    is_complete,
    reassignments,
    start_reassignment,
)
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.replication.support import brokers, image, topic
from kqueue.tests.tables import for_each

P = PartitionRegistration
BROKERS = brokers(1, 2, 3, 4, 5)


@for_each(
    "partition, target, replicas, adding, removing",
    [
        (P((1, 2), (1, 2), 1), (2, 3), (2, 3, 1), (3,), (1,)),
        (P((1, 2), (1, 2), 1), (1, 2, 3), (1, 2, 3), (3,), ()),
        (P((1, 2, 3), (1, 2), 1), (1, 2), (1, 2, 3), (), (3,)),
        (P((1, 2), (1, 2), 1), (2, 1), (2, 1), (), ()),
        # one runs already: 3 is still being added, 4 takes its place
        (P((2, 3, 1), (1, 2), 1, adding=(3,), removing=(1,)), (2, 4), (2, 4, 3, 1), (4,), (3, 1)),
        (P((2, 3, 1), (1, 2), 1, adding=(3,), removing=(1,)), (2, 3), (2, 3, 1), (3,), (1,)),
    ],
)
def test_a_reassignment_begins_with_all_replicas(partition, target, replicas, adding, removing) -> None:
    after = start_reassignment(partition, target, BROKERS)
    assert (after.replicas, after.adding, after.removing) == (replicas, adding, removing)
    assert (after.leader, after.leader_epoch, set(after.isr)) == (partition.leader, 0, set(partition.isr))
    assert after.partition_epoch == (after != partition)


def test_an_invalid_target() -> None:
    with pytest.raises(InvalidReplicaAssignment, match="broker 9 is not registered"):
        start_reassignment(P((1,), (1,), 1), (9,), BROKERS)


@for_each(
    "partition, expected",
    [
        (P((1, 2), (1, 2), 1), False),
        (P((2, 3, 1), (2, 1), 1, adding=(3,), removing=(1,)), False),
        (P((2, 3, 1), (2, 3, 1), 1, adding=(3,), removing=(1,)), True),
        (P((2, 3, 1), (3, 1), 1, adding=(3,), removing=(1,)), False),  # only one of the target
        (P((1, 2, 3), (3,), 3, removing=(3,)), False),
        (P((1, 3, 2), (1, 2, 3), 1, removing=(2, 3)), True),  # one replica is enough for one
    ],
)
def test_completion_needs_the_added_and_enough_to_commit(partition, expected) -> None:
    assert is_complete(partition, 2) is expected


def test_completion_moves_a_leader_that_is_removed() -> None:
    partition = P((2, 3, 1), (2, 3, 1), 1, adding=(3,), removing=(1,))
    after = complete_reassignment(partition, {1, 2, 3}, 2)
    assert after == P((2, 3), (2, 3), 2)
    assert complete_reassignment(partition, {1}, 2) is partition


def test_cancelling_goes_back() -> None:
    partition = P((3, 2, 1), (2, 3, 1), 3, adding=(3,), removing=(1,), leader_epoch=2, partition_epoch=5)
    after = cancel_reassignment(partition, {1, 2, 3}, 2)
    assert after == P((2, 1), (2, 1), 2, leader_epoch=3, partition_epoch=6)
    with pytest.raises(NoReassignmentInProgress):
        cancel_reassignment(after, {1, 2}, 2)


def test_cancelling_loses_nothing_unless_allowed() -> None:
    partition = P((3, 2, 1), (3,), 3, adding=(3,), removing=(1,))
    with pytest.raises(InvalidReplicaAssignment, match="none of the replicas 2, 1 is in sync"):
        cancel_reassignment(partition, {1, 2, 3}, 1)
    after = cancel_reassignment(partition, {1, 3}, 1, allow_unclean=True)
    assert (after.leader, after.isr, after.recovering) == (1, (1,), True)


def test_running_reassignments_are_listed() -> None:
    moving = P((2, 3, 1), (2, 1), 1, adding=(3,), removing=(1,))
    listed = reassignments(image(BROKERS, b=topic(P((1,), (1,), 1), moving), a=topic(moving)))
    assert listed == [
        Reassignment("a", 0, (2, 3, 1), (3,), (1,)),
        Reassignment("b", 1, (2, 3, 1), (3,), (1,)),
    ]
