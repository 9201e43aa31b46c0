from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidReplicaAssignment
from kqueue.broker.topics.replica_assignment import check_replicas
from kqueue.tests.tables import for_each


def test_list_with_this_broker_alone_is_valid() -> None:
    check_replicas([7], 7)


@for_each(
    "replicas, message",
    [
        ([], "the list of replicas is empty"),
        ([2], "broker 2 is not registered; broker 7 is the only one"),
        ([7, 2], "broker 2 is not registered"),
        ([7, 7], "broker 7 is named more than once"),
    ],
)
def test_other_lists_are_refused(replicas: list[int], message: str) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=message):
        check_replicas(replicas, 7)
