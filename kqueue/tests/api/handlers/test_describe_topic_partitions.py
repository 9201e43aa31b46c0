from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import InvalidRequest
from kqueue.broker.replicas.partition import Partition
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

ALL_OPERATIONS = 3576
Place = tuple[str, int]


def world(**counts: int) -> SimulatedClient:
    client = SimulatedClient({"node.id": 7})
    for name, count in counts.items():
        client.sim.topic(name, count)
    return client


def ask(
    client: SimulatedClient, names: list[str] | None = None, limit: int = 2000, cursor: Place | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names or ()], response_partition_limit=limit
    )
    if cursor is not None:
        request.cursor = Cursor(topic_name=cursor[0], partition_index=cursor[1])
    response: DescribeTopicPartitionsResponse = client.ask(request, 0)
    return response


def page(response: DescribeTopicPartitionsResponse) -> tuple[list[tuple[str | None, list[int]]], Place | None]:
    """Names with their partitions, and the cursor."""
    rows = [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]
    after = response.next_cursor
    return rows, after and (after.topic_name, after.partition_index)


def test_a_topic_is_described_with_its_replica() -> None:
    client = world(a=1)
    (topic,) = ask(client, ["a"]).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "a", client.sim.broker.topics.get("a").id)
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, ALL_OPERATIONS)
    (row,) = topic.partitions
    assert (row.error_code, row.partition_index, row.leader_id, row.leader_epoch) == (0, 0, 7, 0)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([7], [7], [])
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])


def test_topics_are_sorted_and_repeated_names_returned_once() -> None:
    client = world(b1=3, a1=3, a2=3)
    assert page(ask(client)) == ([("a1", [0, 1, 2]), ("a2", [0, 1, 2]), ("b1", [0, 1, 2])], None)
    assert page(ask(client, ["b1", "a1", "a1"])) == ([("a1", [0, 1, 2]), ("b1", [0, 1, 2])], None)


def test_unknown_and_invalid_names() -> None:
    response = ask(world(b1=1), ["zzz", "b1", "..", "x" * 250])
    codes = {topic.name: ErrorCode(topic.error_code) for topic in response.topics}
    assert codes == {
        "..": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "b1": ErrorCode.NONE,
        "x" * 250: ErrorCode.INVALID_TOPIC_EXCEPTION,
        "zzz": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {topic.topic_authorized_operations for topic in response.topics} == {ALL_OPERATIONS}


@for_each(
    "names, limit, cursor, expected",
    [
        # what Kafka 4.3.0 answered with topics a1, a2 and b1 of three partitions each
        (["a1", "b1"], 2, None, ([("a1", [0, 1])], ("a1", 2))),
        (["a1", "b1"], 3, None, ([("a1", [0, 1, 2])], ("b1", 0))),
        (["a1", "b1"], 4, None, ([("a1", [0, 1, 2]), ("b1", [0])], ("b1", 1))),
        (["a1", "b1"], 4, ("a1", 2), ([("a1", [2]), ("b1", [0, 1, 2])], None)),
        (["a1", "b1"], 9, ("a1", 99), ([("a1", []), ("b1", [0, 1, 2])], None)),
        (["a1", "aa", "ab", "b1"], 3, None, ([("a1", [0, 1, 2])], ("aa", 0))),
        (["a1", "aa", "b1"], 4, None, ([("a1", [0, 1, 2]), ("aa", []), ("b1", [0])], ("b1", 1))),
        (["a1", "b1"], 0, None, ([("a1", [0])], ("a1", 1))),
        (["a1"], -1, None, ([("a1", [0])], ("a1", 1))),
        (["aa", "ab", "ac"], 1, None, ([("aa", []), ("ab", []), ("ac", [])], None)),
        (["a1", "zz"], 9, ("zz", 5), ([("zz", [])], None)),
        ([], 9, None, ([("a1", [0, 1, 2]), ("a2", [0, 1, 2]), ("b1", [0, 1, 2])], None)),
        ([], 1, ("a1", 2), ([("a1", [2])], ("a2", 0))),
        ([], 9, ("a2", 1), ([("a2", [1, 2]), ("b1", [0, 1, 2])], None)),
        ([], 9, ("a15", 1), ([("a2", [0, 1, 2]), ("b1", [0, 1, 2])], None)),
        ([], 9, ("zzz", 1), ([], None)),
    ],
)
def test_pages_are_those_of_kafka(
    names: list[str], limit: int, cursor: Place | None, expected: tuple[list[tuple[str, list[int]]], Place | None]
) -> None:
    assert page(ask(world(a1=3, a2=3, b1=3), names, limit, cursor)) == expected


@for_each("cursor", [("a2", 1), ("a1", -1), ("zz", 0), ("", 0)])
def test_an_impossible_cursor_is_refused_for_every_topic(cursor: Place) -> None:
    client = world(a1=3, b1=3)
    with pytest.raises(InvalidRequest, match="cursor"):
        ask(client, ["a1", "b1"], cursor=cursor)


def test_a_setting_bounds_each_page() -> None:
    client = SimulatedClient({"max.request.partition.size.limit": 2})
    client.sim.topic("a", 5)
    assert page(ask(client, limit=2**31 - 1)) == ([("a", [0, 1])], ("a", 2))


def test_a_partition_without_its_log_has_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    client = world(a=1)
    monkeypatch.setattr(Partition, "is_offline", True)
    ((row,),) = [topic.partitions for topic in ask(client).topics]
    assert (row.error_code, row.leader_id, row.isr_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [])
    assert row.offline_replicas == [7]


def test_internal_topics_are_marked_as_such() -> None:
    client = world(a=1)
    client.sim.result(client.sim.broker.topics.create_on_demand("__consumer_offsets"))
    assert {topic.name: topic.is_internal for topic in ask(client).topics} == {"__consumer_offsets": True, "a": False}


@given(st.dictionaries(st.text("abc.-", min_size=1, max_size=3), st.integers(1, 4), max_size=5), st.integers(-1, 9))
def test_pages_together_are_the_whole(counts: dict[str, int], limit: int) -> None:
    counts = {name: count for name, count in counts.items() if name.strip(".")}
    client = world(**counts)
    places: list[Place] = []
    cursor: Place | None = None
    for _ in range(sum(counts.values()) + 1):
        rows, cursor = page(ask(client, limit=limit, cursor=cursor))
        new = [(name or "", index) for name, indexes in rows for index in indexes]
        assert len(new) <= max(limit, 1)
        places += new
        if cursor is None:
            break
    assert cursor is None
    assert places == [(name, index) for name in sorted(counts) for index in range(counts[name])]


def test_a_page_of_many_topics_takes_several_turns() -> None:
    client = SimulatedClient({"max.request.partition.size.limit": 5000})
    client.sim.topic("a", 5000)
    client.produce("a", batch(b"x"))
    started = client.start(DescribeTopicPartitionsRequest(response_partition_limit=5000), 0)
    first: object = started.response
    assert first is None, "one slice holds 1,000 partitions"
    client.sim.settle()
    assert len(started.response.topics[0].partitions) == 5000
