from __future__ import annotations

import pytest

from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


@pytest.mark.parametrize("wanted", [None, [], [("a", [0])], [("zz", [0, 1])], [("a", [77])]])
def test_nothing_is_moved(wanted: list[tuple[str, list[int]]] | None) -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    topics = wanted and [ListPartitionReassignmentsTopics(name=name, partition_indexes=rows) for name, rows in wanted]
    response = client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.error_message, response.topics) == (0, None, [])
