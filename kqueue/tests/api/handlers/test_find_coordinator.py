from __future__ import annotations

import pytest

from kqueue.api.handlers import find_coordinator
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.tests.api.group_client import world
from kqueue.tests.api.harness import versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

OLD = [version for version in versions_of("find_coordinator") if version < 4]
NEW = [version for version in versions_of("find_coordinator") if version >= 4]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("key", ["g", ""])
def test_the_only_broker_coordinates_every_group(version: int, key: str) -> None:
    client = world(node_id=7)
    client.sim.broker.endpoints = lambda listener: (f"{listener.lower()}.host", 1234)
    response = client.ask(FindCoordinatorRequest(key=key), version, listener="INSIDE")
    assert response == FindCoordinatorResponse(node_id=7, host="inside.host", port=1234)


@pytest.mark.parametrize("version", NEW)
def test_many_keys_at_once(version: int) -> None:
    client = world(node_id=7)
    response = client.ask(FindCoordinatorRequest(coordinator_keys=["a", "", "b"]), version)
    assert response.coordinators == [
        Coordinator(key=key, node_id=7, host="127.0.0.1", port=9092) for key in ("a", "", "b")
    ]
    assert client.ask(FindCoordinatorRequest(), version).coordinators == []


@pytest.mark.parametrize("version", [*OLD[1:], *NEW])
@pytest.mark.parametrize("key_type", [2, 9, -1])
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


@pytest.mark.parametrize("version", [*OLD[1:], *NEW])
def test_the_only_broker_coordinates_every_transactional_id(version: int) -> None:
    request = FindCoordinatorRequest(
        key="" if version >= 4 else "tx", key_type=1, coordinator_keys=["tx"] if version >= 4 else []
    )
    response = world(node_id=7).ask(request, version)
    coordinator = response.coordinators[0] if version >= 4 else response
    assert (coordinator.error_code, coordinator.node_id, coordinator.port) == (ErrorCode.NONE, 7, 9092)


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_an_error_is_reported_for_every_key(version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"]) if version >= 4 else FindCoordinatorRequest(key="a")
    response = find_coordinator.error_response(request, version, CoordinatorNotAvailable("later"))
    coordinators = response.coordinators if version >= 4 else [response]
    assert {candidate.error_code for candidate in coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert [coordinator.key for coordinator in response.coordinators] == request.coordinator_keys
