from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import FencedLeaderEpoch, NotLeader, UnknownLeaderEpoch
from kqueue.broker.replicas.replica import Change, FollowingReplica, LeadingReplica, SoleReplica, apply
from kqueue.broker.replicas.replica_metadata import ReplicaMetadata, check_epoch
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration

SELF = 1


def registration(epoch: int, leader: int, leader_epoch: int, *replicas: int) -> PartitionRegistration:
    return PartitionRegistration(replicas, replicas, leader, leader_epoch, partition_epoch=epoch)


class Registered:
    """A replica of this broker as registrations replace it."""

    def __init__(self, min_isr: int = 1) -> None:
        self.replica: LeadingReplica | FollowingReplica = FollowingReplica(ReplicaMetadata("t-0", SELF, min_isr))

    def apply(self, taken_over: PartitionRegistration, *, may_lead: bool = True) -> Change | None:
        applied = apply(self.replica, taken_over, 0.0, may_lead=may_lead)
        if applied is None:
            return None
        self.replica, change = applied
        return change

    def review(self, may_lead: bool) -> Change:
        self.replica, change = self.replica.review(may_lead)
        return change


def test_each_registration_says_what_it_changed_here() -> None:
    registered = Registered()
    for number, (applied, change) in enumerate(
        [
            (registration(0, SELF, 0, SELF, 2), Change(leads=True)),
            (registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)), Change()),
            (registration(1, 2, 9, SELF, 2), None),
            (registration(2, SELF, 1, SELF, 2), Change(leads=True)),
            (registration(5, 2, 2, SELF, 2), Change(follows=True)),
            (registration(6, NO_LEADER, 3, SELF, 2), Change(follows=True)),
            (registration(7, 2, 4, 2, 3), Change(removed=True)),
            (registration(8, 3, 5, 2, 3), Change()),
            (registration(9, 3, 5, 2, 3, SELF), Change(follows=True)),
        ]
    ):
        assert registered.apply(applied) == change, number


def test_a_fenced_broker_leads_in_no_epoch() -> None:
    registered = Registered()
    assert registered.apply(registration(3, SELF, 7, SELF, 2), may_lead=False) == Change(follows=True)
    assert registered.apply(registration(4, SELF, 7, SELF, 2), may_lead=False) == Change()
    assert registered.apply(registration(5, SELF, 8, SELF, 2), may_lead=False) == Change(follows=True)
    with pytest.raises(NotLeader, match="broker 1 is registered as leader of t-0, but fenced"):
        registered.replica.check_leader()
    assert registered.review(True) == Change(leads=True)
    assert registered.review(True) == Change()
    registered.replica.check_leader()
    assert registered.replica.leader_epoch == 8
    assert registered.review(False) == Change(follows=True)
    assert registered.review(False) == Change()
    assert not registered.replica.is_leader


def test_a_change_of_roles_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    registered = Registered()
    with caplog.at_level(logging.INFO):
        registered.apply(registration(0, SELF, 0, SELF, 2))
        registered.apply(registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)))
        registered.apply(registration(2, 2, 1, SELF, 2))
    assert caplog.messages == ["t-0: leads in epoch 0, in sync: 1, 2", "t-0: follows broker 2 in epoch 1"]


def test_the_minimum_is_never_above_the_number_of_replicas() -> None:
    registered = Registered(min_isr=2)
    registered.apply(registration(0, SELF, 0, SELF))
    assert not registered.replica.key.is_under_min_isr
    registered.apply(registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)))
    assert registered.replica.key.is_under_min_isr


def test_epochs_of_requests_are_compared() -> None:
    check_epoch("t-0", 5, -1)
    check_epoch("t-0", 5, 5)
    with pytest.raises(FencedLeaderEpoch, match="t-0 is led in epoch 5, the request names 4"):
        check_epoch("t-0", 5, 4)
    with pytest.raises(UnknownLeaderEpoch):
        check_epoch("t-0", 5, 6)


def test_a_new_epoch_begins_a_new_replica_and_a_new_in_sync_set_does_not() -> None:
    registered = Registered()
    registered.apply(registration(0, SELF, 0, SELF, 2))
    first = registered.replica
    registered.apply(registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)))
    assert registered.replica is first
    registered.apply(registration(2, SELF, 1, SELF, 2))
    assert registered.replica is not first
    assert registered.replica.key is first.key, "followers that wait are woken by the same key"


def test_a_sole_replica_leads_in_the_epoch_that_its_broker_began() -> None:
    sole = SoleReplica(SELF)
    sole.begin_epoch(4)
    sole.check_leader()
    assert (sole.is_leader, sole.leader_epoch) == (True, 4)
    assert sole.registration == PartitionRegistration((SELF,), (SELF,), SELF, 4)
    assert sole.review(False) == (sole, Change()), "no session can end its leadership"
    with pytest.raises(FencedLeaderEpoch, match="a single broker follows none"):
        sole.check_follows(4)
