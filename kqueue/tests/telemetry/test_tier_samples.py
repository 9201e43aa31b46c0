from __future__ import annotations

from typing import Any

from kqueue.telemetry.samples import NameBound, Samples
from kqueue.telemetry.tier_samples import read_tier
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import request, want
from kqueue.tests.broker.tier.tiered_brokers import TieredClient, scheme_of_tests
from kqueue.tier.errors import TierUnavailable


class _Sources:
    def __init__(self, broker: Any) -> None:
        self.broker = broker


def read(broker: Any) -> dict[str, Any]:
    samples = Samples()
    for _ in read_tier(samples, _Sources(broker), NameBound(100)):  # type: ignore[arg-type]
        pass
    return {name: next(iter(values.values())) for name, values in samples.values.items() if values}


def test_broker_without_a_tier_has_no_samples_of_it() -> None:
    assert read(Simulation().broker) == {}


def test_samples_say_what_was_copied_what_is_left_and_what_was_read() -> None:
    with scheme_of_tests():
        client = TieredClient()
        client.topic()
        client.fill(5)
        before = read(client.sim.broker)
        assert (before["kqueue_tier_copy_lag_segments"], before["kqueue_tier_copied_segments"]) == (2, 0)
        client.tick()
        client.start(request(client, 11, want()), 11)
        client.sim.settle()
        client.store.error = TierUnavailable("no route")
        client.fill(4, start=5)
        client.tick()
        after = read(client.sim.broker)
    assert after["kqueue_tier_copied_segments"] == 2
    assert after["kqueue_tier_copied_bytes"] == after["kqueue_tier_size_bytes"] == before["kqueue_tier_copy_lag_bytes"]
    assert after["kqueue_tier_copy_lag_segments"] == 2
    assert after["kqueue_tier_copy_errors"] > 0
    assert (after["kqueue_tier_reads"], after["kqueue_tier_read_errors"]) == (1, 0)
    assert after["kqueue_tier_read_bytes"] > 0
    assert after["kqueue_tier_refused"] == 0
