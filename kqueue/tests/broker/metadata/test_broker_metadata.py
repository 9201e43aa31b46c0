from __future__ import annotations

from kqueue.broker.metadata.brokers import BROKERS_CHANGED, ClusterBrokers, SingleBroker
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.purgatory import DelayedOperation
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.members import Members


def test_a_broker_without_a_cluster_store_is_alone() -> None:
    metadata = Simulation({"node.id": 4}).broker.metadata
    assert isinstance(metadata.cluster, SingleBroker)
    assert not isinstance(metadata.cache, ClusterMetadata)
    assert [broker.id for broker in metadata.cluster.all()] == [4]


def test_a_member_follows_the_registrations_of_the_others() -> None:
    members = Members(2)
    broker = members[1].broker
    assert isinstance(broker.metadata.cluster, ClusterBrokers)
    assert isinstance(broker.metadata.cache, ClusterMetadata)
    assert [one.id for one in broker.metadata.cluster.all()] == [1, 2]
    woken = list[object]()
    operation = DelayedOperation((BROKERS_CHANGED,), None, lambda expired: broker.metadata.cluster.find(3))
    broker.scheduler.purgatory.add(operation, woken.append)
    members.register(3)
    members.settle()
    assert woken == [broker.metadata.cluster.find(3)]


def test_producer_ids_of_two_members_differ() -> None:
    members = Members(2)
    ids = [members.result(members[node].broker.metadata.producer_ids.allocate()) for node in (1, 2, 1)]
    assert len(set(ids)) == 3
