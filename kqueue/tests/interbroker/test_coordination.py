from __future__ import annotations

from kqueue.interbroker.coordination import connect_coordinators
from kqueue.interbroker.transactions import PeerTransactions
from kqueue.testing.simulation import Simulation
from kqueue.tests.interbroker.simulated_peers import SimulatedPeers


def test_a_broker_reaches_others_once_it_is_connected() -> None:
    broker = Simulation().broker
    assert broker.coordinators.marker_router.remote is None
    assert broker.coordinators.transaction_partitions.remote is None
    connect_coordinators(broker, SimulatedPeers({}))
    assert isinstance(broker.coordinators.marker_router.remote, PeerTransactions)
    coordinators = broker.coordinators
    assert coordinators.transaction_partitions.remote is coordinators.marker_router.remote
