"""The secret of made-up salts: stored once, the same after a restart and for all brokers."""

from __future__ import annotations

import logging

from kqueue.broker.access.salt_secret import KEY, SaltSecret
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.broker.members import Members


def test_the_secret_outlives_a_restart():
    sim = Simulation()
    made = SaltSecret(sim.broker.metadata.cache)()
    sim.stop()
    assert set(sim.store.read(KEY)) == {KEY}
    again = sim.restarted()
    assert SaltSecret(again.broker.metadata.cache)() == made
    assert SaltSecret(Simulation().broker.metadata.cache)() != made


def test_brokers_of_a_cluster_share_it():
    members = Members(2)
    made = SaltSecret(members[1].broker.metadata.cache)
    members.settle()
    assert SaltSecret(members[2].broker.metadata.cache)() == made()


def test_brokers_that_make_one_at_once_end_up_with_the_same(caplog):
    members = Members(2)
    one, other = (SaltSecret(members[number].broker.metadata.cache) for number in (1, 2))
    assert one() != other()
    members.settle()
    assert one() == other()
    assert not caplog.records


def test_a_store_that_fails_leaves_a_secret_until_the_next_start(caplog):
    store = FailingStore()
    sim = Simulation(store=store)
    store.failing = True
    with caplog.at_level(logging.WARNING):
        assert len(SaltSecret(sim.broker.metadata.cache)()) == 32
        sim.settle()
    assert "will change with the next start" in caplog.text
