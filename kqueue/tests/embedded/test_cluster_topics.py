"""Leaders and replicas as a test sees and changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor, UnknownTopicOrPartition
from kqueue.embedded import Cluster
from kqueue.replication.errors import EligibleLeadersNotAvailable, PreferredLeaderNotAvailable


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with kqueue.Cluster() as running:
        yield running


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.restore()
    for name in list(shared.brokers[0].topics):
        shared.brokers[0].topics[name].delete()
    return shared


def test_a_topic_is_known_to_all_brokers_once_it_is_created(cluster: Cluster) -> None:
    cluster.create_topic("orders", 3, retention_ms=5000)
    for broker in cluster.brokers:
        assert broker.topics["orders"].partitions == 3
        assert broker.topics["orders"].config["retention.ms"] == 5000
    assert {cluster.leader("orders", index) for index in range(3)} == {0, 1, 2}
    assert cluster.isr("orders", 1) == [0, 1, 2]
    cluster.create_topic("mail", replication_factor=1)
    assert len(cluster.replicas("mail")) == 1
    cluster.create_topic("tea", replicas={0: [2, 0], 1: [1, 2]})
    assert (cluster.replicas("tea", 0), cluster.replicas("tea", 1)) == ([2, 0], [1, 2])
    with pytest.raises(InvalidReplicationFactor):
        cluster.create_topic("coffee", replication_factor=4)
    with pytest.raises(InvalidReplicaAssignment):
        cluster.create_topic("coffee", replicas={0: [7]})


def test_topics_and_partitions_that_are_not_there(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    with pytest.raises(UnknownTopicOrPartition, match="did you mean 'orders'"):
        cluster.leader("order")
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 0, not 1"):
        cluster.isr("orders", 1)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.wait_in_sync("order")
    with pytest.raises(UnknownTopicOrPartition):
        cluster.elect("order")
    with pytest.raises(UnknownTopicOrPartition):
        cluster.reassign("orders", 1, [0])


def test_preferred_leaders_are_elected_and_any_replica_can_be_made_one(cluster: Cluster) -> None:
    cluster.create_topic("orders", replicas={0: [0, 1, 2]})
    assert cluster.elect("orders") == 0
    assert cluster.elect("orders", leader=2) == 2
    assert cluster.replicas("orders") == [2, 0, 1]
    cluster.stop(2)
    assert cluster.wait_leader("orders") == 0
    with pytest.raises(PreferredLeaderNotAvailable):
        cluster.elect("orders")
    cluster.start(2)
    cluster.wait_in_sync()
    assert cluster.leader("orders") == 0
    assert cluster.elect("orders") == 2
    cluster.create_topic("tea", replicas={0: [0]})
    with pytest.raises(ValueError, match="broker 1 is no replica of tea-0"):
        cluster.elect("tea", leader=1)


def test_an_unclean_leader_is_elected_only_when_asked_for(cluster: Cluster) -> None:
    cluster.create_topic("orders", replicas={0: [0, 1]})
    cluster.stop(1)
    cluster.stop(0)
    with pytest.raises(EligibleLeadersNotAvailable):
        cluster.elect("orders", unclean=True)
    cluster.start(1)
    assert cluster.leader("orders") is None
    with pytest.raises(TimeoutError, match="in-sync replicas"):
        cluster.wait_in_sync("orders", within_s=0.05)
    with pytest.raises(TimeoutError, match="orders-0 is led by nobody"):
        cluster.wait_leader("orders", within_s=0.05)
    assert cluster.elect("orders", unclean=True) == 1


def test_a_partition_moves_to_other_replicas(cluster: Cluster) -> None:
    cluster.create_topic("orders", replicas={0: [0, 1]})
    cluster[0].topics["orders"].produce_all([b"two coffees", b"one tea"])
    cluster.reassign("orders", 0, [2, 1])
    assert (cluster.replicas("orders"), cluster.isr("orders")) == ([2, 1], [1, 2])
    assert cluster.elect("orders") == 2
    cluster[2].assert_produced("orders", [b"two coffees", b"one tea"])
    with pytest.raises(InvalidReplicaAssignment):
        cluster.reassign("orders", 0, [5])


def test_the_controller_is_followed_by_another_one(cluster: Cluster) -> None:
    first = cluster.controller
    assert first is not None
    cluster.stop(first)
    cluster.wait_in_sync()
    assert cluster.controller not in (None, first)


def test_no_broker_is_left_to_ask(cluster: Cluster) -> None:
    for id in range(3):
        cluster.stop(id)
    with pytest.raises(RuntimeError, match="no broker of the cluster runs"):
        cluster.create_topic("orders")
    assert cluster.controller is None
