from __future__ import annotations

from kqueue.broker.replicas.sole_epoch import EPOCH_KEY
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.test_broker import kill


def test_the_leader_epoch_rises_after_an_unclean_stop_only() -> None:
    sim = Simulation()
    epoch = sim.broker.replicas.host.sole_replica.leader_epoch
    sim.stop()
    clean = sim.restarted()
    clean.topic("orders")
    assert clean.broker.replicas.host.sole_replica.leader_epoch == epoch
    kill(clean)
    unclean = clean.restarted()
    assert unclean.broker.replicas.host.sole_replica.leader_epoch == epoch + 1
    unclean.stop()
    assert unclean.restarted().broker.replicas.host.sole_replica.leader_epoch == epoch + 1


def test_an_epoch_is_stored_only_if_it_is_new() -> None:
    sim = Simulation()
    stored = sim.store.read(EPOCH_KEY)[EPOCH_KEY]
    sim.stop()
    clean = sim.restarted()
    clean.topic("orders")
    assert clean.store.read(EPOCH_KEY)[EPOCH_KEY] == stored
    kill(clean)
    unclean = clean.restarted()
    assert unclean.store.read(EPOCH_KEY)[EPOCH_KEY].version > stored.version
