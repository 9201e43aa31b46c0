from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import FencedLeaderEpoch, NotLeader, UnknownLeaderEpoch
from kqueue.broker.replicas.replica_role import Change, ReplicaRole, check_epoch
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration

SELF = 1


def registration(epoch: int, leader: int, leader_epoch: int, *replicas: int) -> PartitionRegistration:
    return PartitionRegistration(replicas, replicas, leader, leader_epoch, partition_epoch=epoch)


def test_each_registration_says_what_it_changed_here() -> None:
    role = ReplicaRole("t-0", SELF, 1)
    for number, (found, change) in enumerate(
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
        assert role.apply(found, 0.0) == change, number


def test_a_fenced_broker_leads_in_no_epoch() -> None:
    role = ReplicaRole("t-0", SELF, 1)
    assert role.apply(registration(3, SELF, 7, SELF, 2), 0.0, may_lead=False) == Change(follows=True)
    assert role.apply(registration(4, SELF, 7, SELF, 2), 0.0, may_lead=False) == Change()
    assert role.apply(registration(5, SELF, 8, SELF, 2), 0.0, may_lead=False) == Change(follows=True)
    with pytest.raises(NotLeader, match="broker 1 is registered as leader of t-0, but fenced"):
        role.leading_epoch()
    assert role.review(True) == Change(leads=True)
    assert role.review(True) == Change()
    assert role.leading_epoch() == 8
    assert role.review(False) == Change(follows=True)
    assert role.review(False) == Change()
    assert not role.is_leader


def test_a_change_of_roles_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    role = ReplicaRole("t-0", SELF, 1)
    with caplog.at_level(logging.INFO):
        role.apply(registration(0, SELF, 0, SELF, 2), 0.0)
        role.apply(registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)), 0.0)
        role.apply(registration(2, 2, 1, SELF, 2), 0.0)
    assert caplog.messages == ["t-0: leads in epoch 0, in sync: 1, 2", "t-0: follows broker 2 in epoch 1"]


def test_the_minimum_is_never_above_the_number_of_replicas() -> None:
    role = ReplicaRole("t-0", SELF, 2)
    role.apply(registration(0, SELF, 0, SELF), 0.0)
    assert not role.is_under_min_isr
    role.apply(registration(1, SELF, 0, SELF, 2)._replace(isr=(SELF,)), 0.0)
    assert role.is_under_min_isr


def test_epochs_of_requests_are_compared() -> None:
    check_epoch("t-0", 5, -1)
    check_epoch("t-0", 5, 5)
    with pytest.raises(FencedLeaderEpoch, match="t-0 is led in epoch 5, the request names 4"):
        check_epoch("t-0", 5, 4)
    with pytest.raises(UnknownLeaderEpoch):
        check_epoch("t-0", 5, 6)
