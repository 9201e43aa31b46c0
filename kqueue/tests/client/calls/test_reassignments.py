from __future__ import annotations

import pytest

from kqueue.client.calls.reassignments import AlterReassignments, ListReassignments, Reassignment
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.client.topic_partition import TopicPartition
from kqueue.tests.tables import for_each
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def altered(*codes: int) -> AlterPartitionReassignmentsResponse:
    rows = [
        ReassignablePartitionResponse(partition_index=index, error_code=code, error_message="no" if code else None)
        for index, code in enumerate(codes)
    ]
    return AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse(name="t", partitions=rows)])


def test_none_cancels_and_what_is_refused_is_returned() -> None:
    call = AlterReassignments({ONE: [2, 3], TWO: None}, Deadline(1_000))
    (topic,) = call.request(1).topics
    assert [(row.partition_index, row.replicas) for row in topic.partitions] == [(0, [2, 3]), (1, None)]
    assert call.result(1, altered(0, 85), "b:1") == {TWO: (85, "no")}


@for_each("targets, repeatable", [({ONE: [1]}, True), ({ONE: [1], TWO: None}, False)])
def test_a_cancellation_is_not_repeated(targets: dict[TopicPartition, list[int] | None], repeatable: bool) -> None:
    assert AlterReassignments(targets, Deadline(1_000)).repeatable is repeatable


def test_an_error_of_all_and_an_answer_about_something_else_are_raised() -> None:
    call = AlterReassignments({ONE: [1]}, Deadline(1_000))
    with pytest.raises(BrokerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
        call.result(1, AlterPartitionReassignmentsResponse(error_code=31), "b:1")
    with pytest.raises(BadAnswer):
        call.result(1, altered(0, 0), "b:1")


def test_moves_are_listed_with_their_target() -> None:
    call = ListReassignments([ONE, TWO, ONE], Deadline(1_000))
    topics = call.request(0).topics
    assert topics is not None
    assert [(row.name, row.partition_indexes) for row in topics] == [("t", [0, 1])]
    assert ListReassignments(None, Deadline(1_000)).request(0).topics is None
    row = OngoingPartitionReassignment(
        partition_index=1, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
    )
    response = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="t", partitions=[row])])
    assert call.result(0, response, "b:1") == {TWO: Reassignment((3, 2, 1), (3,), (1,))}
    assert call.result(0, response, "b:1")[TWO].target == (3, 2)
    with pytest.raises(BrokerRefused, match="REQUEST_TIMED_OUT"):
        call.result(0, ListPartitionReassignmentsResponse(error_code=7), "b:1")
