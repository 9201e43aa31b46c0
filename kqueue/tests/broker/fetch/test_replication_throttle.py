from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.broker.fetch import replication_throttle
from kqueue.broker.fetch.replication_throttle import ReplicationThrottle
from kqueue.broker.topics.topics import NewTopic
from kqueue.config.catalog import CATALOG
from kqueue.replication.config import FOLLOWER_SIDE, LEADER_SIDE, ThrottledSide
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replication import MEMORY, started
from kqueue.tests.tables import for_each


def lagging(*isr: int) -> Members:
    """Three brokers with replicas of a partition, of which only these, or broker 1, are in sync."""
    members = started(MEMORY)
    members.write(lambda old: old._replace(isr=isr or (1,)))
    return members


def throttle(members: Members, side: ThrottledSide = LEADER_SIDE, rate: int = 1000) -> ReplicationThrottle:
    config = Config(CATALOG, {side.rate: rate})
    return ReplicationThrottle(side, config, members[1].broker.topics, members.clock, 1)


def name(members: Members, side: ThrottledSide, replicas: str, topic: str = "t") -> None:
    registered = members[1].broker.topics.get(topic)
    registered.configure(members[1].broker.config.for_topic({side.replicas: replicas}))


@for_each("side", [LEADER_SIDE, FOLLOWER_SIDE])
@for_each("replicas, is_named", [("*", True), ("1:1,0:1", True), ("0:2", False), ("", False)])
def test_only_named_replicas_are_held_back(side: ThrottledSide, replicas: str, is_named: bool) -> None:
    members = lagging()
    name(members, side, replicas)
    throttling, partition = throttle(members, side), members.partition(1)
    assert not throttling.holds_back(partition, 2)
    throttling.count(partition, 1500)
    assert throttling.holds_back(partition, 2) == is_named
    assert throttling.wait_ms() == (pytest.approx(501) if is_named else 0)
    name(members, side, "")
    assert not throttling.holds_back(partition, 2)


def test_in_sync_follower_is_not_throttled() -> None:
    members = lagging(1, 3)
    name(members, LEADER_SIDE, "*")
    throttling, partition = throttle(members), members.partition(1)
    throttling.count(partition, 5000)
    assert throttling.holds_back(partition, 2)
    assert not throttling.holds_back(partition, 3)


def test_the_rate_is_kept_on_the_average() -> None:
    members = lagging()
    name(members, FOLLOWER_SIDE, "*")
    throttling, partition = throttle(members, FOLLOWER_SIDE), members.partition(1)
    copied = 0
    for _ in range(1000):
        if not throttling.holds_back(partition, 2):
            throttling.count(partition, 300)
            copied += 300
        members.clock.advance(100)
    assert copied == pytest.approx(100_000, rel=0.02)


def test_a_rate_of_none_lets_nothing_more_through() -> None:
    members = lagging()
    name(members, LEADER_SIDE, "*")
    throttling, partition = throttle(members, rate=0), members.partition(1)
    throttling.count(partition, 1)
    members.clock.advance(1e9)
    assert throttling.holds_back(partition, 2)
    assert throttling.wait_ms() == float("inf")


def test_settings_of_many_topics_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_throttle, "TOPICS_MAX", 2)
    members = Members(2, MEMORY)
    throttling = throttle(members)
    for number in range(4):
        topic = f"t{number}"
        members.result(members[1].broker.topics.create(NewTopic(topic, assignments={0: [1, 2]})))
        name(members, LEADER_SIDE, "*", topic)
        throttling.count(members.partition(1, topic), 10)
        members.result(members[1].broker.topics.delete(topic))
        assert len(throttling._named) <= 2
    assert throttling.wait_ms() == 0
