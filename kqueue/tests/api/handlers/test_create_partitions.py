from __future__ import annotations

from kqueue.broker.topics.topics import NewTopic
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def grow(
    client: SimulatedClient,
    *topics: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    validate_only: bool = False,
) -> dict[str, tuple[int, str | None]]:
    requested = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=placed and [CreatePartitionsAssignment(broker_ids=ids) for ids in placed],
        )
        for name, count, placed in topics
    ]
    response = client.ask(
        CreatePartitionsRequest(topics=requested, timeout_ms=100, validate_only=validate_only), version
    )
    return {result.name: (result.error_code, result.error_message) for result in response.results}


@for_each("version", versions_of("create_partitions"))
def test_topics_grow(version: int) -> None:
    client = SimulatedClient()
    topic = client.sim.topic("a", 1)
    client.sim.topic("b", 2)
    assert grow(client, ("a", 3, None), ("b", 3, [[1]]), version=version) == {"a": (0, None), "b": (0, None)}
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    assert client.sim.broker.topics.partition("b", 2).log_end_offset == 0


@for_each(
    "name, count, placed, code",
    [
        ("nobody", 5, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("a", -5, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 99, None, ErrorCode.POLICY_VIOLATION),
    ],
)
@for_each("validate_only", [True, False])
def test_invalid_growth_is_refused(
    name: str, count: int, placed: list[list[int]] | None, code: ErrorCode, validate_only: bool
) -> None:
    client = SimulatedClient({"kqueue.max.partitions": 50})
    client.sim.topic("a", 2)
    told_code, words = grow(client, (name, count, placed), validate_only=validate_only)[name]
    assert told_code == code
    assert words
    assert len(client.sim.broker.topics.get("a").partitions) == 2


def test_validate_only_changes_nothing() -> None:
    client = SimulatedClient()
    client.sim.topic("a", 2)
    assert grow(client, ("a", 3, None), validate_only=True) == {"a": (0, None)}
    assert len(client.sim.broker.topics.get("a").partitions) == 2


def test_a_duplicate_topic_is_refused_once() -> None:
    client = SimulatedClient()
    client.sim.topic("a", 2)
    assert grow(client, ("a", 3, None), ("a", 4, None))["a"][0] == ErrorCode.INVALID_REQUEST
    assert len(client.sim.broker.topics.get("a").partitions) == 2


def test_a_store_that_is_too_slow_is_reported_as_a_timeout() -> None:
    client = SimulatedClient()
    client.sim.topic("a", 1)
    client.sim.jobs.submit = lambda job: None
    started = client.start(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=2, assignments=None)], timeout_ms=1500), 1
    )
    client.sim.advance(1500)
    assert started.response.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_partitions_of_a_cluster_have_as_many_replicas_as_those_before() -> None:
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("a", 1, 2)))
    client = MembersClient(members, 2)
    assert grow(client, ("a", 3, None)) == {"a": (0, None)}
    assert grow(MembersClient(members, 3), ("a", 4, [[3, 1]])) == {"a": (0, None)}
    partitions = members[1].broker.topics.get("a").partitions
    assert [len(partition.replicas) for partition in partitions] == [2, 2, 2, 2]
    assert partitions[3].replicas == (3, 1)
    for placed in ([[3]], [[3, 9]], [[3, 3]]):
        ((code, words),) = grow(client, ("a", 5, placed)).values()
        assert (code, bool(words)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True)
