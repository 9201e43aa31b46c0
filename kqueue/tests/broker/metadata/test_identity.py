from __future__ import annotations

from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each


def test_the_cluster_id_stays_with_the_data() -> None:
    sim = Simulation()
    cluster_id = sim.broker.identity.cluster_id
    assert len(cluster_id) == 22
    sim.stop()
    assert sim.restarted().broker.identity.cluster_id == cluster_id
    assert Simulation(seed=1).broker.identity.cluster_id != cluster_id


@for_each(
    "settings, node_id", [({}, 1), ({"node.id": 7}, 7), ({"broker.id": 3}, 3), ({"node.id": 7, "broker.id": 3}, 7)]
)
def test_the_node_id(settings: dict[str, object], node_id: int) -> None:
    assert Simulation(settings).broker.identity.node_id == node_id


def test_the_rack_and_the_addresses_are_those_that_others_see() -> None:
    members = Members(1, {"broker.rack": "r1"})
    identity = members[1].broker.identity
    assert (identity.rack, identity.endpoints("PLAINTEXT")) == ("r1", ("127.0.0.1", 9092))
    assert Simulation().broker.identity.rack is None
