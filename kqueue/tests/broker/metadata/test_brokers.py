from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.metadata.brokers import Cluster, ClusterBrokers
from kqueue.replication.registrations import NO_LEADER, BrokerRegistration, Endpoint
from kqueue.testing.simulation import Simulation
from kqueue.tests.network.harness import serving
from kqueue.tests.tables import for_each


def broker(id: int, *, fenced: bool = False, epoch: int = 1) -> BrokerRegistration:
    return BrokerRegistration(id, epoch, f"i{epoch}", {"A": Endpoint(f"host{id}", 9092)}, fenced=fenced)


def cluster_of(*brokers: BrokerRegistration) -> ClusterBrokers:
    cluster = ClusterBrokers(1)
    cluster.apply({str(broker.id): broker.to_bytes() for broker in brokers})
    return cluster


def test_a_single_broker_sees_itself() -> None:
    sim = Simulation({"node.id": 7, "broker.rack": "r"})
    sim.broker.identity.listeners = {"A": Endpoint("host", 1), "B": Endpoint("host", 2)}
    sim.broker.identity.endpoints = lambda name: sim.broker.identity.listeners[name][:2]
    cluster: Cluster = sim.broker.metadata.cluster
    assert cluster.is_alone
    assert cluster.node_id == cluster.controller_id == 7
    (own,) = cluster.brokers()
    assert own.is_active
    assert (own.id, own.rack, list(own.endpoints)) == (7, "r", ["A", "B"])
    assert cluster.all() == [own] == [cluster.find(7)]
    assert cluster.find(1) is None
    assert cluster.endpoint(7, "B") == Endpoint("host", 2)
    assert cluster.endpoint(1, "B") is None


def test_a_server_has_the_addresses_of_its_listeners(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path, listeners="PLAINTEXT://127.0.0.1:0") as server:
            assert server.broker.metadata.cluster.brokers()[0].endpoints == {
                "PLAINTEXT": Endpoint(*server.endpoint("PLAINTEXT"))
            }

    asyncio.run(test())


def test_a_member_sees_the_registrations_in_order_and_fenced_ones_only_among_all() -> None:
    cluster = cluster_of(broker(10), broker(2, fenced=True), broker(1))
    view: Cluster = cluster
    assert not view.is_alone
    assert view.controller_id == NO_LEADER
    assert [one.id for one in view.brokers()] == [1, 10]
    assert [one.id for one in view.all()] == [1, 2, 10]
    assert view.find(2) == broker(2, fenced=True)
    assert view.endpoint(2, "A") == Endpoint("host2", 9092)
    assert view.endpoint(2, "B") is None
    assert view.endpoint(3, "A") is None


def test_observers_hear_of_each_change_once_all_are_in_force() -> None:
    cluster = cluster_of(broker(1), broker(2))
    heard: list[tuple[int, list[int]]] = []
    cluster.observe(lambda node_id: heard.append((node_id, [one.id for one in cluster.brokers()])))
    cluster.apply({"3": broker(3).to_bytes(), "2": None})
    assert heard == [(3, [1, 3]), (2, [1, 3])]
    assert cluster.find(2) is None
    cluster.apply({"9": None})
    assert heard[-1] == (9, [1, 3])


def test_a_damaged_registration_is_named() -> None:
    with pytest.raises(StorageFailed, match="/brokers/4 can't be read"):
        ClusterBrokers(1).apply({"4": b"{}"})


@for_each("setting, port", [(None, 1), ("second", 2), ("SECOND", 2), ("third", None)])
def test_brokers_reach_each_other_at_the_listener_of_the_setting_or_the_first(
    setting: str | None, port: int | None
) -> None:
    cluster = ClusterBrokers(1, setting)
    endpoints = {"FIRST": Endpoint("host", 1), "SECOND": Endpoint("host", 2)}
    cluster.apply({"2": BrokerRegistration(2, 1, "i", endpoints).to_bytes()})
    endpoint = cluster.peer_endpoint(2)
    assert (endpoint and endpoint.port) == port
    assert cluster.peer_endpoint(3) is None
