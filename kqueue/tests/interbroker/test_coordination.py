from __future__ import annotations

from kqueue.interbroker.coordination import connect_coordinators
from kqueue.interbroker.transactions import PeerTransactions
from kqueue.testing.simulation import Simulation
from kqueue.tests.interbroker.simulated_peers import SimulatedPeers


def test_a_broker_reaches_others_once_it_is_connected() -> None:
    broker = Simulation().broker
    assert broker.marker_router.remote is None
    assert broker.transaction_partitions.remote is None
    connect_coordinators(broker, SimulatedPeers({}))
    assert isinstance(broker.marker_router.remote, PeerTransactions)
    assert broker.transaction_partitions.remote is broker.marker_router.remote
