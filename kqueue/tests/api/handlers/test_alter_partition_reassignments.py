from __future__ import annotations

from kqueue.broker.topics.topics import NewTopic
from kqueue.tests.api.access_requests import Deciding, nothing
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

VERSIONS = versions_of("alter_partition_reassignments")


@for_each("version", VERSIONS)
@for_each(
    "index, replicas, code",
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


@for_each("version", VERSIONS)
def test_a_refusal_is_told_of_each_partition_too(version: int) -> None:
    """Java's client takes it from there, and reports an unknown error if it is missing."""
    client = SimulatedClient()
    client.answers_errors = True
    client.sim.broker.security.authorizer = Deciding(nothing)
    rows = [ReassignablePartition(partition_index=index, replicas=[7]) for index in (3, 1)]
    response = client.ask(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=rows)]), version
    )
    [topic] = response.responses
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (response.error_code, topic.name) == (denied, "a")
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [(3, denied), (1, denied)]


@for_each("allowed", [False, True])
def test_the_answer_repeats_whether_the_number_of_replicas_may_change(allowed: bool) -> None:
    response = SimulatedClient().ask(AlterPartitionReassignmentsRequest(allow_replication_factor_change=allowed), 1)
    assert response.allow_replication_factor_change is allowed


def moves(client: SimulatedClient, **fields: bool) -> list[int]:
    """Ask to move a-0 to 3 and 2, a-1 to 1, 2 and 3, and cancel a-2; return the codes."""
    wanted = enumerate([[3, 2], [1, 2, 3], None])
    rows = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in wanted]
    topics = [ReassignableTopic(name="a", partitions=rows)]
    response = client.ask(AlterPartitionReassignmentsRequest(topics=topics, **fields), 1)
    (topic,) = response.responses
    return [row.error_code for row in topic.partitions]


def test_a_broker_of_a_cluster_begins_and_cancels_moves() -> None:
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("a", assignments=dict.fromkeys(range(3), (1, 2)))))
    client = MembersClient(members, 2)
    assert moves(client) == [0, 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    partitions = members.registration("a").partitions
    assert [(row.replicas, row.adding, row.removing) for row in partitions] == [
        ((3, 2, 1), (3,), (1,)),
        ((1, 2, 3), (3,), ()),
        ((1, 2), (), ()),
    ]
    assert moves(MembersClient(members, 3), allow_replication_factor_change=False) == [
        0,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ]


def test_nothing_moves_while_the_store_is_away() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("a", assignments={0: [1], 1: [1], 2: [1]})))
    client = MembersClient(members, 1)
    members.store.close()
    failed = [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    rows = [ReassignablePartition(partition_index=index, replicas=[2]) for index in range(3)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=rows)])
    (topic,) = client.ask(request, 1).responses
    assert [row.error_code for row in topic.partitions] == failed
    assert all(row.error_message for row in topic.partitions)
    assert [row.leader for row in members[1].broker.topics.get("a").partitions] == [1] * 3
