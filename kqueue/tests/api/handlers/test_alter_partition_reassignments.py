from __future__ import annotations

import pytest

from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

VERSIONS = versions_of("alter_partition_reassignments")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (0, [7], ErrorCode.NONE),
        (0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [7, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [7, 7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (5, [7], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (5, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, [7], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_each_partition_has_its_answer(version: int, index: int, replicas: list[int] | None, code: ErrorCode) -> None:
    client = SimulatedClient({"node.id": 7})
    client.sim.topic("a", 2)
    rows = [
        ReassignablePartition(partition_index=index, replicas=replicas),
        ReassignablePartition(partition_index=1, replicas=[7]),
    ]
    topics = [ReassignableTopic(name="a", partitions=rows), ReassignableTopic(name="zz", partitions=rows[1:])]
    response = client.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    first, second = response.responses
    assert [(row.partition_index, row.error_code) for row in first.partitions] == [(index, code), (1, 0)]
    assert bool(first.partitions[0].error_message) is bool(code)
    assert [row.error_code for row in second.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("allowed", [False, True])
def test_the_answer_repeats_whether_the_number_of_replicas_may_change(allowed: bool) -> None:
    response = SimulatedClient().ask(AlterPartitionReassignmentsRequest(allow_replication_factor_change=allowed), 1)
    assert response.allow_replication_factor_change is allowed
