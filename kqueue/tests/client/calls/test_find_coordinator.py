from __future__ import annotations

import pytest

from kqueue.client.calls.find_coordinator import CoordinatorKey, FindCoordinator
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.tests.tables import for_each
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse


@for_each(
    "version, response",
    [(4, FindCoordinatorResponse(coordinators=[Coordinator(key="other")])), (6, FindCoordinatorResponse())],
)
def test_a_response_about_another_group_is_an_error(version: int, response: FindCoordinatorResponse) -> None:
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer is not about"):
        FindCoordinator("g").result(version, response, "b:1")


def test_the_error_is_raised() -> None:
    with pytest.raises(BrokerRefused, match="FindCoordinator of group 'g': COORDINATOR_NOT_AVAILABLE"):
        FindCoordinator("g").result(3, FindCoordinatorResponse(error_code=15), "b:1")


@for_each("version", [1, 6])
def test_a_transactional_id_has_another_coordinator(version: int) -> None:
    call = FindCoordinator("x", CoordinatorKey.TRANSACTIONAL_ID)
    request = call.request(version)
    assert request.key_type == 1
    assert "x" in (request.key, *request.coordinator_keys)
    with pytest.raises(BrokerRefused, match="FindCoordinator of transactional id 'x': COORDINATOR_NOT_AVAILABLE"):
        call.result(3, FindCoordinatorResponse(error_code=15), "b:1")
