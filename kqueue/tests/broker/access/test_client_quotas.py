from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed, ThrottlingQuotaExceeded
from kqueue.broker.access import client_quotas
from kqueue.broker.access.client_quotas import PREFIX, ClientQuotas, QuotaWindows
from kqueue.metadata.memory import MemoryStore
from kqueue.security.quotas import CLIENT_ID, IP, USER, entity_of, filter_of
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore

ALL = filter_of([], strict=False)
ANN = entity_of([(USER, "ann")])
EACH_CLIENT = entity_of([(CLIENT_ID, None)])
EACH_ADDRESS = entity_of([(IP, None)])
SECOND = 1000


def alter(sim: Simulation, entity: object, **change: float | None) -> None:
    sim.result(quotas(sim).alter({entity: change}))  # type: ignore[dict-item]


def quotas(sim: Simulation) -> ClientQuotas:
    return sim.broker.security.quotas


def test_quotas_outlive_a_restart_until_they_are_removed() -> None:
    sim = Simulation()
    alter(sim, ANN, producer_byte_rate=1000.0, request_percentage=50.0)
    alter(sim, EACH_ADDRESS, connection_creation_rate=5.0)
    alter(sim, ANN, producer_byte_rate=None, consumer_byte_rate=7.0)
    expected = {
        ANN: {"request_percentage": 50.0, "consumer_byte_rate": 7.0},
        EACH_ADDRESS: {"connection_creation_rate": 5},
    }
    assert dict(quotas(sim).matching(ALL)) == expected
    sim.stop()
    sim = sim.restarted()
    assert dict(quotas(sim).matching(ALL)) == expected
    assert quotas(sim).is_active
    assert quotas(sim).bounds_addresses
    alter(sim, ANN, request_percentage=None, consumer_byte_rate=None, producer_byte_rate=None)
    assert not quotas(sim).is_active
    assert list(sim.store.read(PREFIX)) == [f"{PREFIX}{EACH_ADDRESS.id}"]


def test_a_store_that_fails_is_the_error_and_nothing_changes() -> None:
    store = FailingStore()
    sim = Simulation(store=store)
    store.failing = True
    promise = quotas(sim).alter({ANN: {"producer_byte_rate": 1.0}})
    sim.settle()
    assert isinstance(promise.error, StorageFailed)
    assert not quotas(sim).is_active


def test_a_broker_does_not_start_while_an_entry_cannot_be_read() -> None:
    store = MemoryStore()
    store.commit({}, {f"{PREFIX}x": b"damaged"}, [])
    with pytest.raises(StorageFailed, match="stored quotas"):
        Simulation(store=store)


def test_a_changed_quota_holds_at_once() -> None:
    sim = Simulation()
    assert quotas(sim).count_produced("ann", "app", 1_000_000) == 0
    alter(sim, ANN, producer_byte_rate=1000.0)
    assert quotas(sim).count_produced("ann", "app", 20_000) == 10 * SECOND
    alter(sim, ANN, producer_byte_rate=2000.0)
    assert quotas(sim).count_produced("ann", "app", 0) == 0
    alter(sim, ANN, producer_byte_rate=500.0)
    assert quotas(sim).count_produced("ann", "app", 0) == 30 * SECOND
    alter(sim, ANN, producer_byte_rate=None)
    assert quotas(sim).count_produced("ann", "app", 1_000_000) == 0


def test_clients_of_a_user_share_its_quota_and_others_have_their_own() -> None:
    sim = Simulation()
    alter(sim, ANN, producer_byte_rate=1000.0)
    alter(sim, EACH_CLIENT, producer_byte_rate=1000.0)
    count = quotas(sim).count_produced
    assert count("ann", "app", 10_000) == 0
    assert count("ann", "other", 1_000) == 1000
    assert count("bob", "app", 10_000) == 0
    assert count("cyd", "app", 1_000) == 1000  # of the client id, whoever uses it
    assert count("bob", None, 10_000) == 0
    assert count("bob", "", 1_000) == 1000


def test_time_holds_a_client_back_for_one_window_at_most() -> None:
    sim = Simulation()
    alter(sim, ANN, request_percentage=10.0)
    assert quotas(sim).count_time("ann", "app", 0.9) == 0
    assert quotas(sim).count_time("ann", "app", 0.2) == SECOND
    assert quotas(sim).count_time("bob", "app", 100.0) == 0


def test_bytes_that_are_not_sent_are_not_counted() -> None:
    sim = Simulation()
    alter(sim, ANN, consumer_byte_rate=1000.0)
    count = quotas(sim).count_fetched
    assert quotas(sim).fetch_bytes_max("ann", "app") == 10_000
    assert count("ann", "app", 6_000) == 0
    assert count("ann", "app", 6_000) == 2 * SECOND
    assert count("ann", "app", 6_000) == 2 * SECOND
    assert count("ann", "app", 4_000) == 0
    assert count("ann", "app", 0) == 0
    assert quotas(sim).fetch_bytes_max("bob", "app") == 2**31 - 1


def test_a_batch_above_the_whole_quota_is_sent_to_a_client_that_had_none() -> None:
    sim = Simulation()
    alter(sim, ANN, consumer_byte_rate=10.0)
    assert quotas(sim).count_fetched("ann", "app", 1_000_000) == 0
    assert quotas(sim).count_fetched("ann", "app", 1) > 0
    sim.clock.advance(12 * SECOND)
    assert quotas(sim).count_fetched("ann", "app", 1_000_000) == 0


def test_mutations_are_refused_or_held_back_once_the_saved_ones_are_used() -> None:
    sim = Simulation()
    alter(sim, ANN, controller_mutation_rate=2.0)
    strict = quotas(sim).mutations("ann", "app", is_strict=True)
    strict.count(30)  # 22 were saved; 8 more are above
    assert strict.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceeded, match="again in 4000 ms"):
        strict.count(1)
    assert strict.throttle_ms == 4 * SECOND
    held_back = quotas(sim).mutations("ann", "app", is_strict=False)
    held_back.count(2)
    assert held_back.throttle_ms == 5 * SECOND
    sim.clock.advance(5 * SECOND)
    quotas(sim).mutations("ann", "app", is_strict=True).count(1)
    alter(sim, ANN, controller_mutation_rate=None)
    free = quotas(sim).mutations("ann", "app", is_strict=True)
    free.count(1_000_000)
    assert (free.is_bounded, free.throttle_ms) == (False, 0)


def test_an_address_may_make_so_many_connections() -> None:
    sim = Simulation()
    assert quotas(sim).count_connection("10.0.0.1") == 0
    alter(sim, EACH_ADDRESS, connection_creation_rate=1.0)
    assert [quotas(sim).count_connection("10.0.0.1") for _ in range(12)] == [0] * 10 + [SECOND] * 2
    assert quotas(sim).count_connection("10.0.0.2") == 0
    sim.clock.advance(12 * SECOND)
    assert quotas(sim).count_connection("10.0.0.1") == 0


def test_many_client_ids_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rates_max = clients_max = 1000
    monkeypatch.setattr(client_quotas, "RATES_MAX", rates_max)
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", clients_max)
    clock = ManualClock()
    sim = Simulation()
    bounded = ClientQuotas(QuotaWindows(), clock)
    alter(sim, EACH_CLIENT, producer_byte_rate=1000.0, controller_mutation_rate=1.0)
    bounded.load(sim.broker.metadata.cache)
    for number in range(5000):
        bounded.count_produced("mallory", f"client-{number}", 1)
        if number % 10 == 0:
            bounded.mutations("mallory", f"client-{number}", is_strict=True)
    assert bounded.rate_count <= rates_max + 500
    assert len(bounded._resolved) <= clients_max
    clock.advance(12 * SECOND)
    for number in range(rates_max):
        bounded.count_produced("ann", "app", 1)
        bounded.count_produced("mallory", f"later-{number % 100}", 1)
    held = len(bounded._rates)
    assert held <= rates_max
