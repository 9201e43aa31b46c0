"""A broker of a cluster whose metadata store is away: it serves on, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.broker.topics.topics import OFFSETS_TOPIC, NewTopic
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.handlers.test_create_topics import topic
from kqueue.tests.api.handlers.test_describe_configs import BROKER, TOPIC
from kqueue.tests.api.handlers.test_incremental_alter_configs import SET, alter, resource
from kqueue.tests.api.harness import batch
from kqueue.tests.broker.members import Members
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kqueue.wire.messages.create_topics import CreateTopicsRequest
from kqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kqueue.wire.messages.describe_cluster import DescribeClusterRequest
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest

AWAY = ErrorCode.KAFKA_STORAGE_ERROR
"""Clients retry it."""


@pytest.fixture
def client() -> MembersClient:
    """Of broker 1 of two; t-0 is here. The store has gone."""
    members = Members(2, {"offsets.topic.num.partitions": 1})
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1]})))
    members.register(2, epoch=2, fenced=True)
    members.settle()
    members.store.close()
    return MembersClient(members, 1)


def test_known_metadata_is_served_while_the_store_is_away(client: MembersClient) -> None:
    metadata = client.ask(MetadataRequest(topics=None), 13)
    assert [(row.name, row.partitions[0].error_code) for row in metadata.topics] == [
        ("t", ErrorCode.LISTENER_NOT_FOUND)
    ]
    assert client.ask(DescribeClusterRequest(), 2).error_code == ErrorCode.NONE
    assert client.produce("t", batch(b"a")).error_code == ErrorCode.NONE


def test_a_coordinator_whose_topic_is_not_there_is_not_available(client: MembersClient) -> None:
    (coordinator,) = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6).coordinators
    assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.sim.broker.topics.find(OFFSETS_TOPIC) is None


def test_changes_fail_with_an_error_that_clients_retry(client: MembersClient) -> None:
    created = client.ask(CreateTopicsRequest(topics=[topic("a")]), 7).topics[0]
    grown = client.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]), 3
    ).results[0]
    deleted = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6).responses[0]
    removed = client.ask(UnregisterBrokerRequest(broker_id=2), 0)
    outcomes: list[Any] = [created, grown, deleted, removed]
    assert [outcome.error_code for outcome in outcomes] == [AWAY] * 4
    assert all(outcome.error_message for outcome in outcomes)
    wanted = [MetadataRequestTopic(name="new")]
    (missing,) = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=True), 13).topics
    assert missing.error_code == AWAY
    names = [row.name for row in client.ask(MetadataRequest(topics=None), 13).topics]
    assert names == ["t"]


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "1"), (BROKER, "")])
def test_settings_stay(client: MembersClient, kind: int, name: str) -> None:
    setting = "retention.ms" if kind == TOPIC else "log.retention.ms"
    ((code, words),) = alter(client, resource(kind, name, (SET, setting, "77")))
    assert (code, bool(words)) == (AWAY, True)
