from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor, UnknownTopicOrPartition
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.cluster.partition_changes import Election, Outcomes, elected
from kqueue.broker.topics.topics import NewTopic
from kqueue.replication.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each

P = PartitionRegistration


@pytest.fixture
def members() -> Members:
    """Brokers 1 to 3, and the topic t: partition 0 on 1, 2; partition 1 on 2, 3."""
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2], 1: [2, 3]})))
    return members


def reassign(members: Members, node: int, changes: Sequence[Any], **how: bool) -> Promise[Outcomes]:
    return run(members[node].broker.replicas.changes.reassign("t", changes, **how))


def elect(members: Members, node: int, indexes: Sequence[int], election: Election) -> Promise[Outcomes]:
    return run(members[node].broker.replicas.changes.elect("t", indexes, election))


def run(work: SlicedWork[Promise[Outcomes]]) -> Promise[Outcomes]:
    """Run what a request's own slices do."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            promise: Promise[Outcomes] = end.value
            return promise


def kinds(outcomes: Outcomes) -> list[type | None]:
    return [None if outcome is None else type(outcome) for outcome in outcomes]


@for_each(
    "before, active, leader, isr",
    [
        (P((1, 2), (2, 1), 2), {1, 2}, 1, (2, 1)),
        (P((1, 2), (1,), NO_LEADER), {1}, 1, (1,)),
    ],
)
def test_the_preferred_leader_is_elected(
    before: PartitionRegistration, active: set[int], leader: int, isr: tuple[int, ...]
) -> None:
    after = elected(before, Election.PREFERRED, active, 1)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (leader, isr, 1, 1)


@for_each(
    "before, active, leader, recovering",
    [
        (P((1, 2), (1,), NO_LEADER), {2}, 2, True),
        (P((1, 2), (), NO_LEADER, elr=(2,)), {1, 2}, 2, False),
        (P((1, 2), (), NO_LEADER, last_known_leader=2), {1, 2}, 2, True),
        (P((1, 2), (2,), NO_LEADER), {1, 2}, 2, False),
    ],
)
def test_an_unclean_election_loses_nothing_where_it_need_not(
    before: PartitionRegistration, active: set[int], leader: int, recovering: bool
) -> None:
    after = elected(before, Election.UNCLEAN, active, 1)
    assert (after.leader, after.isr, after.recovering, after.leader_epoch) == (leader, (leader,), recovering, 1)


@for_each(
    "before, election, active, error, words",
    [
        (P((1, 2), (1, 2), 1), Election.PREFERRED, {1, 2}, ElectionNotNeeded, "broker 1, .* leads the partition"),
        (P((1, 2), (1, 2), 2), Election.UNCLEAN, {1, 2}, ElectionNotNeeded, "broker 2 leads the partition"),
        (P((1, 2), (2,), 2), Election.PREFERRED, {1, 2}, PreferredLeaderNotAvailable, "not in sync"),
        (P((1, 2), (1, 2), 2), Election.PREFERRED, {2}, PreferredLeaderNotAvailable, "fenced or shut down"),
        (P((1, 2), (1,), NO_LEADER), Election.UNCLEAN, {3}, EligibleLeadersNotAvailable, "brokers serves: 1, 2"),
    ],
)
def test_why_nobody_is_elected(
    before: PartitionRegistration, election: Election, active: set[int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        elected(before, election, active, 1)


def test_any_broker_begins_and_cancels_moves(members: Members) -> None:
    assert members.result(reassign(members, 3, [(0, [3, 2]), (1, [2, 3])])) == [None, None]
    first, second = members.registration().partitions
    assert (first.replicas, first.adding, first.removing, first.leader) == ((3, 2, 1), (3,), (1,), 1)
    assert (second.replicas, second.partition_epoch) == ((2, 3), 0), "it is where it should be"
    assert members.partition(1).registration == members.partition(2).registration == first
    outcomes = members.result(reassign(members, 2, [(0, None), (1, None)]))
    assert kinds(outcomes) == [None, NoReassignmentInProgress]
    assert members.registration().partitions[0].replicas == (2, 1)


def test_each_partition_succeeds_or_fails_by_itself(members: Members) -> None:
    wanted = [(0, [1, 9]), (1, []), (0, [2, 2]), (7, [1, 2]), (-1, None), (0, [2, 1])]
    assert kinds(members.result(reassign(members, 1, wanted))) == [
        InvalidReplicaAssignment,
        InvalidReplicaAssignment,
        InvalidReplicaAssignment,
        UnknownTopicOrPartition,
        UnknownTopicOrPartition,
        None,
    ]
    assert members.registration().partitions[0].replicas == (2, 1)
    with pytest.raises(UnknownTopicOrPartition):
        run(members[1].broker.replicas.changes.reassign("zz", [(0, [1])]))


def test_the_number_of_replicas_changes_if_the_request_says_so(members: Members) -> None:
    outcomes = members.result(reassign(members, 1, [(0, [1, 2, 3]), (1, [3, 1])], same_factor=True))
    assert kinds(outcomes) == [InvalidReplicationFactor, None]
    assert members.result(reassign(members, 1, [(0, [1, 2, 3])])) == [None]
    outcomes = members.result(reassign(members, 1, [(0, [1, 3, 2])], same_factor=True))
    assert kinds(outcomes) == [InvalidReplicationFactor], "those that are being added do not count"


def test_leaders_are_elected_in_one_commit(members: Members) -> None:
    for index, leader in ((0, 2), (1, 3)):
        members.write(lambda partition, leader=leader: partition._replace(leader=leader), index=index)
    before = members.store.changes(0).version
    outcomes = members.result(elect(members, 3, [0, 1, 1], Election.PREFERRED))
    assert kinds(outcomes) == [None, None, ElectionNotNeeded]
    assert [partition.leader for partition in members.registration().partitions] == [1, 2]
    assert members.store.changes(0).version == before + 1


def test_conflicting_reassignment_is_computed_again(members: Members) -> None:
    first, second = reassign(members, 1, [(0, [3, 1])]), reassign(members, 2, [(1, [1, 2])])
    members.settle()
    assert (first.result(), second.result()) == ([None], [None])
    assert [partition.adding for partition in members.registration().partitions] == [(3,), (1,)]


def test_a_topic_that_is_deleted_meanwhile(members: Members) -> None:
    promise = reassign(members, 2, [(0, [3, 1])])
    members[1].broker.topics.delete("t")
    members[1].settle()
    with pytest.raises(UnknownTopicOrPartition):
        members.result(promise)


def test_a_change_between_two_slices_is_seen(members: Members) -> None:
    work = members[1].broker.replicas.changes.reassign("t", [(0, [3, 1]), (1, [1, 2])])
    next(work)
    members.write(lambda partition: partition._replace(isr=(1,)))
    assert members.result(run(work)) == [None, None]
    first, second = members.registration().partitions
    assert (first.adding, first.isr, second.adding) == ((3,), (1,), (1,))
