"""`__share_group_state`: its settings, replay and pruning."""

from __future__ import annotations

from kqueue.broker.share.share_groups import PRUNE_INTERVAL_MS
from kqueue.broker.topics.topics import SHARE_TOPIC
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, Member, acquired, data_of, earliest, fill

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
}


def accept_each(client: SimulatedClient, count: int) -> None:
    member = Member(client)
    assert acquired(member.fetch())
    for offset in range(0, 2 * count, 2):
        assert data_of(member.acknowledge((offset, offset, ACCEPT))).error_code == 0


def test_share_state_topic_has_kafkas_settings() -> None:
    client = SimulatedClient(SETTINGS)
    client.sim.topic("t")
    Member(client).fetch()
    topic = client.sim.broker.topics.get(SHARE_TOPIC)
    assert len(topic.partitions) == 2
    assert {name: topic.config[name] for name in ("cleanup.policy", "retention.ms", "compression.type")} == {
        "cleanup.policy": ["delete"],
        "retention.ms": -1,
        "compression.type": "producer",
    }


def test_redundant_records_are_deleted_and_a_replay_gives_the_same() -> None:
    client = SimulatedClient(sim=Simulation(SETTINGS))
    client.sim.topic("t")
    earliest(client)
    fill(client, 40)
    accept_each(client, 10)
    [key] = client.sim.broker.share.coordinator.keys()
    state = client.sim.broker.share.coordinator.read(key)
    client.sim.advance(PRUNE_INTERVAL_MS)
    [start] = {each.log_start_offset for each in client.sim.broker.topics.get(SHARE_TOPIC).partitions} - {0}
    assert start > 5
    client.sim.settle()
    before = client.sim.broker.share.coordinator.read(key)
    client.sim.stop()
    again = client.sim.restarted().broker.share.coordinator.read(key)
    assert again == before
    assert state is not None
    assert again is not None
    accepted = [batch for batch in again.batches if batch.state.name == "ACKNOWLEDGED"]
    assert accepted == [batch for batch in state.batches if batch.state.name == "ACKNOWLEDGED"]
