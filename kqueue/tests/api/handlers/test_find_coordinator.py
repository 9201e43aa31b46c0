from __future__ import annotations

from collections.abc import Sequence

import pytest

from kqueue.api.handlers import find_coordinator
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.broker.topics.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.group_client import world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

OLD = [version for version in versions_of("find_coordinator") if version < 4]
NEW = [version for version in versions_of("find_coordinator") if version >= 4]


@for_each("version", OLD)
@for_each("key", ["g", ""])
def test_the_only_broker_coordinates_every_group(version: int, key: str) -> None:
    client = world(node_id=7)
    client.sim.broker.identity.endpoints = lambda listener: (f"{listener.lower()}.host", 1234)
    response = client.ask(FindCoordinatorRequest(key=key), version, listener="INSIDE")
    assert response == FindCoordinatorResponse(node_id=7, host="inside.host", port=1234)


@for_each("version", NEW)
def test_many_keys_at_once(version: int) -> None:
    client = world(node_id=7)
    response = client.ask(FindCoordinatorRequest(coordinator_keys=["a", "", "b"]), version)
    assert response.coordinators == [
        Coordinator(key=key, node_id=7, host="127.0.0.1", port=9092) for key in ("a", "", "b")
    ]
    assert client.ask(FindCoordinatorRequest(), version).coordinators == []


@for_each("version", [*OLD[1:], *NEW])
@for_each("key_type", [2, 9, -1])
def test_keys_of_other_kinds_have_no_coordinator(version: int, key_type: int) -> None:
    many = version >= 4
    request = (
        FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=key_type)
        if many
        else FindCoordinatorRequest(key="a", key_type=key_type)
    )
    response = world().ask(request, version)
    coordinators = response.coordinators if many else [response]
    assert [
        (candidate.error_code, candidate.node_id, candidate.host, candidate.port) for candidate in coordinators
    ] == [(ErrorCode.INVALID_REQUEST, -1, "", -1)] * (1 + many)
    assert all(f"type {key_type}" in candidate.error_message for candidate in coordinators)


def test_the_only_broker_coordinates_every_share_partition() -> None:
    good = ["share:AAAAAAAAAAAAAAAAAAAAAA:0", "with:colons:gtb2stGYRk-vWZ2zAozmoA:12"]
    bad = ["", "share", "share:short:0", ":gtb2stGYRk-vWZ2zAozmoA:0", "share:gtb2stGYRk-vWZ2zAozmoA:x"]
    response = world(node_id=7).ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[*good, *bad]), 6)
    assert [(one.key, one.error_code, one.node_id) for one in response.coordinators] == [
        *((key, ErrorCode.NONE, 7) for key in good),
        *((key, ErrorCode.INVALID_REQUEST, -1) for key in bad),
    ]


@for_each("version", [*OLD[1:], *NEW])
def test_the_only_broker_coordinates_every_transactional_id(version: int) -> None:
    request = FindCoordinatorRequest(
        key="" if version >= 4 else "tx", key_type=1, coordinator_keys=["tx"] if version >= 4 else []
    )
    response = world(node_id=7).ask(request, version)
    coordinator = response.coordinators[0] if version >= 4 else response
    assert (coordinator.error_code, coordinator.node_id, coordinator.port) == (ErrorCode.NONE, 7, 9092)


@for_each("version", [*OLD, *NEW])
def test_an_error_is_reported_for_every_key(version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"]) if version >= 4 else FindCoordinatorRequest(key="a")
    response = find_coordinator.error_response(request, version, CoordinatorNotAvailable("later"))
    coordinators = response.coordinators if version >= 4 else [response]
    assert {candidate.error_code for candidate in coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert [coordinator.key for coordinator in response.coordinators] == request.coordinator_keys


# --- in a cluster


def coordinator_client(leaders: Sequence[int]) -> ClusterClient:
    """Of a cluster whose topic of offsets has these leaders."""
    client = ClusterClient({"offsets.topic.num.partitions": len(leaders)})
    client.sim.result(client.sim.broker.topics.create_on_demand(OFFSETS_TOPIC))
    topic = client.sim.broker.topics.get(OFFSETS_TOPIC)
    for partition, leader in zip(topic.partitions, leaders, strict=True):
        partition.apply(PartitionRegistration((1, 2, 3), (1, 2, 3), leader, partition_epoch=1))
    return client


@for_each("version", versions_of("find_coordinator"))
def test_the_leader_of_the_partition_that_keeps_the_id_coordinates(version: int) -> None:
    client = coordinator_client([3, NO_LEADER, 2])
    keys = {"a": 1, "b": 2, "c": 0}  # their partitions: hash codes 97, 98, 99
    for key, index in keys.items():
        request = FindCoordinatorRequest(key=key) if version < 4 else FindCoordinatorRequest(coordinator_keys=[key])
        response = client.ask(request, version)
        coordinator = response if version < 4 else response.coordinators[0]
        leader = (3, NO_LEADER, 2)[index]
        if leader == NO_LEADER:
            assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        else:
            assert (coordinator.error_code, coordinator.node_id, coordinator.host) == (
                ErrorCode.NONE,
                leader,
                f"out{leader}",
            )


def test_the_topic_of_the_coordinator_is_created_when_it_is_needed() -> None:
    client = ClusterClient({"transaction.state.log.num.partitions": 2})
    response = client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 6)
    assert response.coordinators[0].error_code == ErrorCode.NONE
    assert len(client.sim.broker.topics.get(TRANSACTIONS_TOPIC).partitions) == 2
    assert client.sim.broker.topics.find(OFFSETS_TOPIC) is None


@for_each("version", versions_of("find_coordinator"))
def test_a_topic_that_cannot_be_created_is_no_coordinator(version: int) -> None:
    client = ClusterClient({"offsets.topic.num.partitions": 9, "kqueue.max.partitions": 1})
    request = FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
    response = client.ask(request, version)
    coordinator = response if version < 4 else response.coordinators[0]
    assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert version == 0 or "kqueue.max.partitions=1" in coordinator.error_message


def test_a_factor_above_the_number_of_brokers_is_answered_each_time_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = ClusterClient({"offsets.topic.replication.factor": 9})
    reason = "the replication factor 9 can't be reached: the cluster has 3 brokers"
    for _ in range(3):
        (coordinator,) = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert reason in coordinator.error_message
    assert caplog.messages == [
        f"topic __consumer_offsets can't be created: {reason}; see offsets.topic.replication.factor"
    ]
