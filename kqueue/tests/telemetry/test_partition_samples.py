from __future__ import annotations

from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.telemetry.scraping import samples_of


def test_a_partition_that_was_not_used_has_replicas_and_no_offsets() -> None:
    sim = Simulation()
    sim.topic("t", 1)
    values = samples_of(sim.broker).values
    assert values["kqueue_partition_leader"]["t", "0"] == sim.broker.identity.node_id
    assert values["kqueue_partition_replicas"]["t", "0"] == values["kqueue_partition_in_sync_replicas"]["t", "0"] == 1
    assert ("t", "0") not in values["kqueue_partition_end_offset"]
    assert not values["kqueue_replication_lag"]


def test_a_partition_in_use_has_its_offsets() -> None:
    client = SimulatedClient()
    client.sim.topic("t", 1)
    client.produce("t", batch(b"a", b"b"))
    values = samples_of(client.sim.broker).values
    assert values["kqueue_partition_high_watermark"]["t", "0"] == values["kqueue_partition_end_offset"]["t", "0"] == 2
    assert values["kqueue_topic_appended_bytes"]["t",] == values["kqueue_partition_size_bytes"]["t", "0"]
