from __future__ import annotations

from kqueue.broker.acls import stored_form
from kqueue.broker.security import BrokerSecurity
from kqueue.testing.simulation import Simulation
from kqueue.tests.security.acl_strategies import acl


def test_a_broker_knows_its_acls_before_it_serves() -> None:
    sim = Simulation()
    sim.result(sim.broker.security.acls.store(stored_form(acl())))
    sim.stop()
    security = BrokerSecurity()
    assert not security.acls.index.is_complete
    security.load(sim.restarted().broker.metadata)
    assert security.acls.index.is_complete
    assert list(security.acls.index) == [acl()]
    assert security.authorizer is None
