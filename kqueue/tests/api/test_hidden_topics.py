"""Topics that a client may not describe: nothing tells that they exist. And what becomes of those
that it may describe, but not use.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from kqueue.api.handlers import init_producer_id
from kqueue.api.request_context import RequestContext
from kqueue.base.names import uuid_text
from kqueue.security.authorizer import Action
from kqueue.security.operations import AclOperation as Op
from kqueue.security.operations import ResourceType as Type
from kqueue.tests.api.access_requests import (
    ROWS,
    Deciding,
    Row,
    all_but,
    build_request,
    codes_in,
    nothing,
    request_for,
    values_in,
    world,
)
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.api.share_client import ACCEPT, Member, earliest, fill, give_states
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kqueue.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.metadata import MetadataRequest
from kqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kqueue.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TopicInfo, Topology

DENIED, UNKNOWN_ID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID
NAMED = {"name", "topic", "topic_name", "resource_name"}
LISTED = {"topic_names", "subscribed_topic_names"}
ON_TOPICS = [row for row in ROWS if any(rule.resource_type is Type.TOPIC for rule in row.access or ())]
UNKNOWN = b"\x05" * 16
KNOWING_BOTH = {"DeleteTopics", "Metadata"}
"""APIs whose newest version names a topic by its name or by its id."""


def sees(*topics: str) -> Deciding:
    """Everything is allowed, but of topics only these."""
    return Deciding(lambda action: action.resource_type is not Type.TOPIC or action.name in topics)


def decide(client: SimulatedClient, authorizer: Deciding | None) -> None:
    client.sim.broker.security.authorizer = authorizer


def answer(row: Row, version: int, name: str | None, topic_id: bytes) -> str:
    """What a client that may use no topic is told of one. `topic_id` empty: that of known-one."""
    client = world()
    client.answers_errors = True
    known = client.sim.topic("known-one").id
    decide(client, Deciding(lambda action: action.resource_type not in (Type.TOPIC, Type.CLUSTER)))
    values = {**dict.fromkeys(NAMED, name), **{key: [name] for key in LISTED}}
    request = build_request(row.api.module_name, version, b"", {**values, "topic_id": topic_id or known})
    text = re.sub(r"<memory at \w+>", "", str(client.ask(request, version)))
    for one in (known, UNKNOWN):
        text = text.replace(str(one), "ID").replace(uuid_text(one), "ID")
    return text.replace(name, "NAME") if name else text


@for_each("row", ON_TOPICS)
def test_forbidden_topic_name_is_answered_like_an_unknown_one(row: Row) -> None:
    topic_id = bytes(16) if row.api.name in KNOWING_BOTH else UNKNOWN
    for version in row.versions:
        assert answer(row, version, "known-one", topic_id) == answer(row, version, "other-one", topic_id)


@for_each("row", ON_TOPICS)
def test_forbidden_topic_id_is_answered_like_an_unknown_one(row: Row) -> None:
    name = None if row.api.name in KNOWING_BOTH else "other-one"
    version = row.versions[1]
    assert answer(row, version, name, b"") == answer(row, version, name, UNKNOWN)


@for_each("version", [1, 12])
def test_all_topics_are_those_that_may_be_described(version: int) -> None:
    client = world()
    client.sim.topic("u")
    decide(client, sees("u"))
    response = client.ask(MetadataRequest(topics=None), version)
    assert [topic.name for topic in response.topics] == ["u"]
    page = client.ask(DescribeTopicPartitionsRequest(response_partition_limit=1), 0)
    assert [topic.name for topic in page.topics] == ["u"]


def test_a_page_does_not_end_at_a_hidden_topic() -> None:
    client = world()
    for name in ("a", "b", "c"):
        client.sim.topic(name)
    decide(client, sees("a", "c"))
    page = client.ask(DescribeTopicPartitionsRequest(response_partition_limit=1), 0)
    assert [topic.name for topic in page.topics] == ["a"]
    assert page.next_cursor.topic_name == "c"


@for_each("allowed, operations", [(False, 0), (True, 8096)])
def test_operations_of_the_cluster(allowed: bool, operations: int) -> None:
    client = world()
    decide(client, Deciding(all_but() if allowed else all_but((Op.DESCRIBE, Type.CLUSTER))))
    for version in (8, 10):
        response = client.ask(request_for(client, "metadata", version, topic_id=bytes(16)), version)
        assert response.cluster_authorized_operations == operations
    assert client.ask(request_for(client, "describe_cluster", 2), 2).cluster_authorized_operations == operations


def test_operations_of_a_topic_and_a_group_are_those_that_are_allowed() -> None:
    client = world()
    decide(client, Deciding(lambda action: action.operation in (Op.DESCRIBE, Op.READ)))
    bits = 1 << Op.DESCRIBE | 1 << Op.READ
    described = client.ask(
        request_for(client, "metadata", 9, topic_id=bytes(16), include_topic_authorized_operations=True), 9
    )
    assert [topic.topic_authorized_operations for topic in described.topics] == [bits]
    groups = client.ask(request_for(client, "describe_groups", 5, include_authorized_operations=True), 5).groups
    assert [group.authorized_operations for group in groups] == [bits]


# --- fetches


def fetch(client: SimulatedClient, version: int, session: tuple[int, int], *topics: str, **values: Any) -> Any:
    known = client.sim.broker.topics
    return client.ask(
        FetchRequest(
            max_wait_ms=values.get("max_wait_ms", 0),
            min_bytes=1,
            max_bytes=10_000,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                FetchTopic(
                    topic=name if version < 13 else "",
                    topic_id=known.get(name).id if version >= 13 else bytes(16),
                    partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
                )
                for name in topics
            ],
        ),
        version,
    )


@for_each("version", [7, 12, 13, 18])
def test_a_session_is_checked_at_each_fetch(version: int) -> None:
    client = world()
    client.sim.topic("u")
    client.produce("u", batch(b"b"))
    first = fetch(client, version, (0, 0), "t", "u")
    assert codes_in(first) == {0}
    decide(client, Deciding(lambda action: action.operation is Op.DESCRIBE or action.name != "t"))
    second = fetch(client, version, (first.session_id, 1))
    codes = {bytes(topic.topic_id) if version >= 13 else topic.topic: topic.partitions[0] for topic in second.responses}
    known = client.sim.broker.topics
    t, u = (known.get("t").id, known.get("u").id) if version >= 13 else ("t", "u")
    assert codes[t].error_code == DENIED
    assert not codes[t].records
    assert codes[u].error_code == 0
    decide(client, None)
    assert codes_in(fetch(client, version, (first.session_id, 2))) == {0}


def test_a_fetch_of_forbidden_topics_alone_does_not_wait() -> None:
    client = world()
    decide(client, Deciding(nothing))
    response = fetch(client, 12, (0, -1), "t", max_wait_ms=10_000)
    assert DENIED in codes_in(response)


def test_a_fetch_with_a_forbidden_topic_waits_for_the_others() -> None:
    client = world()
    client.sim.topic("u")
    decide(client, sees("u"))
    assert fetch(client, 12, (0, -1), "t", "u", max_wait_ms=10_000) is None


# --- share groups


@pytest.fixture
def sharing() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t")
    client.sim.topic("u")
    earliest(client)
    fill(client, 1)
    return client


def share_codes(response: Any) -> dict[bytes, tuple[int, int]]:
    return {
        bytes(topic.topic_id): (topic.partitions[0].error_code, topic.partitions[0].acknowledge_error_code)
        for topic in response.responses
    }


def test_a_share_session_is_checked_at_each_fetch(sharing: SimulatedClient) -> None:
    member, known = Member(sharing), sharing.sim.broker.topics.get("t").id
    assert share_codes(member.fetch()) == {known: (0, 0)}
    fill(sharing, 1)
    decide(sharing, Deciding(all_but((Op.READ, Type.TOPIC))))
    assert share_codes(member.fetch()) == {known: (DENIED, 0)}
    assert share_codes(member.fetch(acks={"t": [(0, 0, ACCEPT)]})) == {known: (DENIED, DENIED)}
    decide(sharing, sees("u"))
    assert share_codes(member.fetch()) == {known: (UNKNOWN_ID, 0)}
    response = member.acknowledge((0, 0, ACCEPT))
    assert codes_in(response) == {0, UNKNOWN_ID}
    decide(sharing, None)
    assert codes_in(member.acknowledge((0, 0, ACCEPT))) == {0}


def share_heartbeat(client: SimulatedClient, *topics: str) -> Any:
    return client.ask(ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=list(topics)), 1)


def test_a_share_group_needs_all_topics_to_be_described(sharing: SimulatedClient) -> None:
    decide(sharing, sees("t"))
    assert share_heartbeat(sharing, "t", "u").error_code == DENIED
    assert share_heartbeat(sharing, "t").error_code == 0
    described = request_for(sharing, "share_group_describe", 1)
    [group] = sharing.ask(described, 1).groups
    assert (group.error_code, len(group.members)) == (0, 1)
    decide(sharing, sees("u"))
    [group] = sharing.ask(described, 1).groups
    assert (group.error_code, group.members) == (DENIED, [])


def test_offsets_of_share_groups(sharing: SimulatedClient) -> None:
    sharing.answers_errors = True
    share_heartbeat(sharing, "t")
    give_states(sharing, "g", ["t"])
    sharing.ask(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), 1)
    sharing.sim.settle()
    decide(sharing, sees("u"))
    named = sharing.ask(request_for(sharing, "describe_share_group_offsets", 1), 1)
    assert codes_in(named) == {0, DENIED}
    everything = request_for(sharing, "describe_share_group_offsets", 1)
    everything.groups[0].topics = None
    assert list(values_in(sharing.ask(everything, 1), "topic_name")) == []
    for module in ("alter_share_group_offsets", "delete_share_group_offsets"):
        response = sharing.ask(request_for(sharing, module, 0), 0)
        assert codes_in(response) == {0, DENIED}
        assert set(values_in(response, "topic_id")) == {bytes(16)}
    decide(sharing, None)
    assert codes_in(sharing.ask(request_for(sharing, "alter_share_group_offsets", 0), 0)) == {0}
    assert list(values_in(sharing.ask(everything, 1), "topic_name")) == ["t"]


# --- other groups


def consumer_heartbeat(client: SimulatedClient, **fields: Any) -> Any:
    given = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "member_id": "m", "group_id": "c", **fields}
    return client.ask(ConsumerGroupHeartbeatRequest(**given), 1)


def test_a_consumer_group_needs_all_topics_to_be_described() -> None:
    client = world()
    client.sim.topic("u")
    decide(client, sees("t"))
    assert consumer_heartbeat(client, subscribed_topic_names=["t", "u"]).error_code == DENIED
    assert consumer_heartbeat(client, subscribed_topic_names=["t"]).error_code == 0
    described = request_for(client, "consumer_group_describe", 1, group_ids=["c"])
    [group] = client.ask(described, 1).groups
    assert (group.error_code, len(group.members)) == (0, 1)
    decide(client, sees("u"))
    [group] = client.ask(described, 1).groups
    assert (group.error_code, group.members) == (DENIED, [])


def test_a_pattern_finds_only_topics_that_may_be_described() -> None:
    client = world()
    client.sim.topic("u")
    decide(client, sees("t"))
    consumer_heartbeat(client, subscribed_topic_regex=".*")
    client.sim.advance(20)
    response = consumer_heartbeat(client, member_epoch=1, topic_partitions=None)
    group = client.sim.broker.coordinators.groups.consumer.find("c")
    assert group is not None
    assert group.subscribed_topics() == {"t"}
    assert response.error_code == 0
    decide(client, sees("t", "u"))
    client.sim.topic("v")
    for _ in range(3):
        client.sim.advance(10_001)
        consumer_heartbeat(client, member_epoch=group.members["m"].current.epoch, topic_partitions=None)
    assert group.subscribed_topics() == {"t", "u"}


def streams_heartbeat(client: SimulatedClient) -> Any:
    topology = Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=["t"], state_changelog_topics=[TopicInfo(name="app-changelog")]
            )
        ]
    )
    return client.ask(
        StreamsGroupHeartbeatRequest(
            group_id="s", member_id="m", rebalance_timeout_ms=60_000, process_id="p", topology=topology,
            active_tasks=[], standby_tasks=[], warmup_tasks=[],
        ),
        0,
    )  # fmt: skip


def test_a_streams_group_needs_the_topics_of_its_topology() -> None:
    client = world()
    decide(client, sees("t"))
    assert streams_heartbeat(client).error_code == DENIED
    decide(client, Deciding(all_but((Op.CREATE, Type.TOPIC), (Op.CREATE, Type.CLUSTER))))
    response = streams_heartbeat(client)
    assert response.error_code == 0
    assert "Unauthorized to CREATE on topics app-changelog." in [each.status_detail for each in response.status]
    client.sim.advance(100)
    assert client.sim.broker.topics.find("app-changelog") is None
    described = request_for(client, "streams_group_describe", 0, group_ids=["s"])
    assert codes_in(client.ask(described, 0)) == {0}
    decide(client, sees("t"))
    [group] = client.ask(described, 0).groups
    assert (group.error_code, group.topology, group.members) == (DENIED, None, [])


# --- transactions


def test_topics_of_a_transaction() -> None:
    client = TransactionClient()
    client.sim.topic("u")
    client.add(("t", 0), ("u", 0))
    decide(client, sees("u"))
    described = client.ask(request_for(client, "describe_transactions", 0), 0)
    assert [topic.topic for topic in described.transaction_states[0].topics] == ["u"]


def test_two_phase_commit_is_allowed_by_itself() -> None:
    client = world()
    decide(client, Deciding(all_but((Op.TWO_PHASE_COMMIT, Type.TRANSACTIONAL_ID))))
    context = RequestContext(client.sim.broker, 6)
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000, enable2_pc=True)
    response: Any = init_producer_id.handle(request, context)
    assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_producer_without_transactions_may_write_somewhere_or_is_idempotent() -> None:
    client = world()
    client.answers_errors = True
    writes = Action(Op.WRITE, Type.TOPIC, "*")
    for allows, code in (
        (lambda action: action == writes, 0),
        (lambda action: action.operation is Op.IDEMPOTENT_WRITE, 0),
        (nothing, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ):
        decide(client, Deciding(allows))
        response = client.ask(request_for(client, "init_producer_id", 4, transactional_id=None), 4)
        assert response.error_code == code


@for_each("replica_id", [-1, 1])
def test_followers_find_offsets_as_brokers(replica_id: int) -> None:
    client = world()
    decide(client, Deciding(lambda action: action.operation is Op.CLUSTER_ACTION))
    response = client.ask(request_for(client, "list_offsets", 7, replica_id=replica_id, timestamp=-1), 7)
    assert codes_in(response) == {0 if replica_id >= 0 else DENIED}
