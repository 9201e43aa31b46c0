"""ShareGroupHeartbeat: join, assignment once share partitions have a state, leave, fencing."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.broker.metadata.features import SHARE_VERSION, FeatureUpdate, UpgradeType
from kqueue.share.share_state import SharePartitionKey
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import assigned, beat
from kqueue.wire.error_codes import ErrorCode


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 3)
    return client


def test_a_member_is_assigned_once_its_partitions_have_a_state(client: SimulatedClient) -> None:
    response = beat(client, "m1", 0, ["t"])
    assert (response.error_code, response.member_id, response.heartbeat_interval_ms) == (0, "m1", 5000)
    assert assigned(response) == {}
    client.sim.advance(1000)
    response = beat(client, "m1", response.member_epoch)
    assert assigned(response) == {"t": [0, 1, 2]}
    topic = client.sim.broker.topics.get("t")
    for index in range(3):
        assert client.sim.broker.share.coordinator.read(SharePartitionKey("g", topic.id, index)) is not None
    client.sim.advance(1000)
    assert beat(client, "m1", response.member_epoch).assignment is None, "nothing changed"


def settle(client: SimulatedClient, *members: str) -> dict[str, Any]:
    """Let members join and send heartbeats until nothing changes; the last with all fields."""
    epochs = {member: beat(client, member, 0, ["t"]).member_epoch for member in members}
    for _ in range(3):
        client.sim.advance(1000)
        for member in members:
            epochs[member] = beat(client, member, epochs[member]).member_epoch
    return {member: beat(client, member, epochs[member], ["t"]) for member in members}


def test_members_share_partitions(client: SimulatedClient) -> None:
    responses = settle(client, "m1", "m2")
    parts = [assigned(response)["t"] for response in responses.values()]
    assert sorted(parts[0] + parts[1]) == [0, 1, 2]
    assert all(parts)


def test_more_members_than_partitions(client: SimulatedClient) -> None:
    responses = settle(client, *(f"m{number}" for number in range(7)))
    parts = [assigned(response)["t"] for response in responses.values()]
    assert all(len(part) == 1 for part in parts)
    assert {part[0] for part in parts} == {0, 1, 2}


def test_a_member_that_leaves_or_falls_silent(client: SimulatedClient) -> None:
    responses = settle(client, "m1", "m2")
    assert beat(client, "m2", -1).error_code == 0
    client.sim.advance(1000)
    epoch = beat(client, "m1", responses["m1"].member_epoch).member_epoch
    assert assigned(beat(client, "m1", epoch, ["t"])) == {"t": [0, 1, 2]}
    client.sim.advance(45_000)
    assert beat(client, "m1", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    group = client.sim.broker.coordinators.groups.share.find("g")
    assert group is not None
    assert group.state.value == "Empty"


@pytest.mark.parametrize(
    ("member", "epoch", "topics", "code"),
    [
        ("", 0, ["t"], ErrorCode.INVALID_REQUEST),
        ("m", 0, None, ErrorCode.INVALID_REQUEST),
        ("m", 0, [], ErrorCode.INVALID_REQUEST),
        ("m", -2, None, ErrorCode.INVALID_REQUEST),
        ("m", 1, None, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", -1, None, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_refused(client: SimulatedClient, member: str, epoch: int, topics: list[str] | None, code: ErrorCode) -> None:
    assert beat(client, member, epoch, topics).error_code == code


def test_epochs(client: SimulatedClient) -> None:
    settle(client, "m1")
    assert beat(client, "m1", 99).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(client, "m9", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group() -> None:
    client = SimulatedClient({"group.share.max.size": 1})
    client.sim.topic("t")
    assert beat(client, "m1", 0, ["t"]).error_code == 0
    assert beat(client, "m2", 0, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert beat(client, "m1", 0, ["t"]).error_code == 0


def test_a_new_partition_and_a_deleted_topic(client: SimulatedClient) -> None:
    epoch = settle(client, "m1")["m1"].member_epoch
    client.sim.result(client.sim.broker.topics.add_partitions("t", 4))
    for _ in range(3):
        client.sim.advance(1000)
        epoch = beat(client, "m1", epoch).member_epoch
    assert assigned(beat(client, "m1", epoch, ["t"])) == {"t": [0, 1, 2, 3]}
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.sim.advance(1000)
    response = beat(client, "m1", epoch)
    assert assigned(response) == {}
    group = client.sim.broker.coordinators.groups.share.find("g")
    assert group is not None
    assert not group.state_partitions.initialized


def test_a_restart_keeps_the_group() -> None:
    sim = Simulation()
    client = SimulatedClient(sim=sim)
    sim.topic("t", 3)
    epoch = settle(client, "m1")["m1"].member_epoch
    before = sim.broker.coordinators.groups.share.find("g")
    sim.stop()
    client = SimulatedClient(sim=sim.restarted())
    after = client.sim.broker.coordinators.groups.share.find("g")
    assert before is not None
    assert after is not None
    assert (after.members, after.targets, after.epoch, after.target_epoch, after.state_partitions) == (
        before.members,
        before.targets,
        before.epoch,
        before.target_epoch,
        before.state_partitions,
    )
    assert beat(client, "m1", epoch).error_code == 0
    client.sim.advance(45_000)
    assert beat(client, "m1", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_feature_may_be_off(client: SimulatedClient) -> None:
    update = FeatureUpdate(SHARE_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
    client.sim.result(client.sim.broker.metadata.features.update([update]))
    assert beat(client, "m1", 0, ["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_write_that_fails_changes_nothing(client: SimulatedClient) -> None:
    topics = client.sim.broker.topics
    beat(client, "other", 0, ["t"], group="h")
    client.sim.broker.coordinators.groups._writer.mark_unreadable(
        client.sim.broker.coordinators.groups.partition_of("g"), "damaged"
    )
    assert beat(client, "m1", 0, ["t"]).error_code == ErrorCode.NOT_COORDINATOR
    assert client.sim.broker.coordinators.groups.share.find("g") is None
    assert topics.find("t") is not None
