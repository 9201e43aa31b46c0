"""The bit sets are those that Kafka answers without an authorizer."""

from __future__ import annotations

from kqueue.api.authorized_operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS


def test_the_sets_are_kafkas() -> None:
    assert (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 3400, 8096)
    assert NOT_REQUESTED == -2147483648
