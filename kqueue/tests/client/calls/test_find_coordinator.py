from __future__ import annotations

import pytest

from kqueue.client.calls.find_coordinator import FindCoordinator
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse


@pytest.mark.parametrize(
    ("version", "response"),
    [(4, FindCoordinatorResponse(coordinators=[Coordinator(key="other")])), (6, FindCoordinatorResponse())],
)
def test_a_response_about_another_group_is_an_error(version: int, response: FindCoordinatorResponse) -> None:
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer is not about"):
        FindCoordinator("g").result(version, response, "b:1")


def test_the_error_is_raised() -> None:
    with pytest.raises(BrokerRefused, match="FindCoordinator of group 'g': COORDINATOR_NOT_AVAILABLE"):
        FindCoordinator("g").result(3, FindCoordinatorResponse(error_code=15), "b:1")
