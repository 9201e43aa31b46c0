from __future__ import annotations

from kqueue.broker.access.acls import stored_form
from kqueue.broker.access.client_quotas import ClientQuotas
from kqueue.broker.access.security import BrokerSecurity
from kqueue.broker.access.security_keys import QUOTAS_PREFIX
from kqueue.security.quotas import PRODUCER_BYTE_RATE, USER, QuotaEntity, entity_of, to_json
from kqueue.testing.simulation import Simulation
from kqueue.tests.security.acl_strategies import acl


def test_a_broker_knows_its_acls_before_it_serves() -> None:
    sim = Simulation()
    sim.result(sim.broker.security.acls.store(stored_form(acl())))
    sim.stop()
    security = BrokerSecurity()
    assert not security.acls.index.is_complete
    security.load(sim.restarted().broker.metadata.cache)
    assert security.acls.index.is_complete
    assert list(security.acls.index) == [acl()]
    assert security.authorizer is None


def limit(sim: Simulation, entity: QuotaEntity, bound: float | None) -> None:
    """Store a quota, or delete it, as another broker does."""
    value = None if bound is None else to_json(entity, {PRODUCER_BYTE_RATE: bound}).encode()
    sim.broker.metadata.cache.commit("test", {f"{QUOTAS_PREFIX}{entity.id}": value}, lambda error: None)
    sim.settle()


def test_quotas_become_active_with_the_first_one_whoever_sets_it() -> None:
    sim, ann = Simulation(), entity_of([(USER, "ann")])
    told: list[ClientQuotas] = []
    security = sim.broker.security
    security.observe_quotas(told.append)
    assert not told, "nobody has asked for quotas"
    limit(sim, ann, 1000)
    assert security.active_quotas is security.quotas
    assert told[-1:] == [security.quotas]
    assert security.quotas.limits_of("ann", None).produce is not None
    limit(sim, ann, 2000)
    produce = security.quotas.limits_of("ann", None).produce
    assert produce is not None
    assert produce.bound == 2000
    sim.stop()
    again = sim.restarted()
    assert again.broker.security.active_quotas is again.broker.security.quotas, "from the start"
    limit(again, ann, None)
    assert again.broker.security.active_quotas is None


def test_erasing_finds_all_keys_also_those_that_nothing_has_read() -> None:
    sim = Simulation()
    puts = {f"/{kind}/x": b"damaged" for kind in ("acls", "scram", "tokens")}
    sim.broker.metadata.cache.commit("test", puts, lambda error: None)
    sim.settle()
    assert sorted(sim.broker.security.keys()) == sorted(puts)
    assert BrokerSecurity().keys() == []
