"""The bit sets are those that Kafka answers without an authorizer."""

from __future__ import annotations

from kqueue.api.authorized_operations import ALL_OPERATIONS, NOT_REQUESTED
from kqueue.security.operations import ResourceType


def test_the_sets_are_kafkas() -> None:
    assert ALL_OPERATIONS == {ResourceType.TOPIC: 3576, ResourceType.GROUP: 3400, ResourceType.CLUSTER: 8096}
    assert NOT_REQUESTED == -2147483648
