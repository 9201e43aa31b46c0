from __future__ import annotations

import pytest

from kqueue.base.errors import PolicyViolation
from kqueue.broker.cluster.broker_removal import remove_broker
from kqueue.tests.broker.members import Members


def removal(members: Members, node: int, *, by: int = 1) -> object:
    broker = members[by].broker
    return members.result(remove_broker(node, broker.metadata.cache, broker.metadata.cluster))


def test_a_fenced_broker_is_removed_for_all() -> None:
    members = Members(3)
    members.register(3, epoch=2, fenced=True)
    members.settle()
    removal(members, 3)
    assert [broker.id for broker in members[2].broker.metadata.cluster.all()] == [1, 2]
    removal(members, 3, by=2)


def test_a_broker_that_serves_stays() -> None:
    members = Members(2)
    with pytest.raises(PolicyViolation, match="broker 2 serves: stop it first"):
        removal(members, 2)
    assert members[1].broker.metadata.cluster.find(2) is not None


def test_a_broker_that_comes_back_meanwhile_stays() -> None:
    members = Members(2)
    members.register(2, epoch=2, fenced=True)
    members.settle()
    broker = members[1].broker
    promise = remove_broker(2, broker.metadata.cache, broker.metadata.cluster)
    members.register(2, epoch=2)
    with pytest.raises(PolicyViolation):
        members.result(promise)
