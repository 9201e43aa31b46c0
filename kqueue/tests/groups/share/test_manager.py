"""Share groups whose share partitions get their states late, or not; heartbeats as frames are in
`tests/api/handlers/test_share_group_heartbeat.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.groups.share.manager import Partitions
from kqueue.groups.share.records import StateTopic
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import assigned, beat

Done = Callable[[KqueueError | None], None]


class HeldStates:
    """A `ShareStates` that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Partitions, int]] = []
        self.waiting: list[Done] = []
        self.deleted: list[str] = []

    def initialize(self, group_id: str, partitions: Partitions, state_epoch: int, done: Done) -> None:
        self.asked.append((group_id, partitions, state_epoch))
        self.waiting.append(done)

    def delete_group(self, group_id: str, partitions: Partitions) -> None:
        self.deleted.append(group_id)


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 2)
    return client


def test_partitions_are_assigned_once_they_have_a_state(client: SimulatedClient) -> None:
    states = client.sim.broker.coordinators.groups.share.states = HeldStates()
    epoch = beat(client, "m", 0, ["t"]).member_epoch
    client.sim.advance(1000)
    assert assigned(beat(client, "m", epoch, ["t"])) == {}
    assert len(states.asked) == 1, "once"
    states.waiting.pop()(None)
    client.sim.settle()
    client.sim.advance(1000)
    epoch = beat(client, "m", epoch).member_epoch
    assert assigned(beat(client, "m", epoch, ["t"])) == {"t": [0, 1]}


def test_a_failure_is_repeated(client: SimulatedClient) -> None:
    states = client.sim.broker.coordinators.groups.share.states = HeldStates()
    beat(client, "m", 0, ["t"])
    states.waiting.pop()(StorageFailed("the disk"))
    assert not states.waiting
    client.sim.advance(1000)
    assert len(states.waiting) == 1


def test_interrupted_initialization_goes_on_after_a_restart() -> None:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 2)
    client.sim.broker.coordinators.groups.share.states = HeldStates()
    epoch = beat(client, "m", 0, ["t"]).member_epoch
    client.sim.stop()
    client = SimulatedClient(sim=client.sim.restarted())
    client.sim.advance(1000)
    epoch = beat(client, "m", epoch).member_epoch
    assert assigned(beat(client, "m", epoch, ["t"])) == {"t": [0, 1]}


def test_a_deleted_group_loses_its_states(client: SimulatedClient) -> None:
    states = client.sim.broker.coordinators.groups.share.states = HeldStates()
    beat(client, "m", 0, ["t"])
    beat(client, "m", -1)
    client.sim.result(client.sim.broker.coordinators.groups.delete("g"))
    assert states.deleted == ["g"]
    states.waiting.pop()(None)
    client.sim.settle()
    assert client.sim.broker.coordinators.groups.share.find("g") is None


def test_topics_that_kafka_was_deleting_stay_noted(client: SimulatedClient) -> None:
    """kqueue deletes states at once; only a log that Kafka wrote has such topics."""
    share = client.sim.broker.coordinators.groups.share
    states = share.states = HeldStates()
    beat(client, "m", 0, ["t"])
    group = share.find("g")
    assert group is not None
    deleting = {b"\7" * 16: "old"}
    group.state_partitions = group.state_partitions._replace(deleting=deleting)
    states.waiting.pop()(None)
    client.sim.settle()
    client.sim.topic("u", 1)
    beat(client, "m", group.members["m"].current.epoch, ["t", "u"])
    client.sim.advance(1000)
    topic_ids = {name: client.sim.broker.topics.get(name).id for name in "tu"}
    assert topic_ids["t"] in group.state_partitions.initialized
    beat(client, "m", -1)
    client.sim.result(share.forget_states("g", topic_ids["t"]))
    client.sim.result(share.add_states("g", {topic_ids["t"]: StateTopic("t", frozenset({0}))}))
    assert group.state_partitions.deleting == deleting
