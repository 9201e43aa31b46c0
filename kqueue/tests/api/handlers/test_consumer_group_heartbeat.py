from __future__ import annotations

from typing import Any

from kqueue.tests.api.group_client import stable, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kqueue.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

VERSIONS = versions_of("consumer_group_heartbeat")


def joining(member_id: str = "m", group_id: str = "g", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, **{**given, **fields})


def join(client: SimulatedClient, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    response: ConsumerGroupHeartbeatResponse = client.ask(joining(**fields), version)
    return response


@for_each("version", VERSIONS)
def test_a_member_gets_its_partitions_and_leaves(version: int) -> None:
    client = world()
    response = join(client, version)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", 2)
    assert response.heartbeat_interval_ms == 5000
    assert response.assignment is not None
    topic_id = client.sim.broker.topics.get("t").id
    assert response.assignment.topic_partitions == [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    unchanged = client.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2), version)
    assert unchanged.assignment is None
    left = client.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), version)
    assert (left.error_code, left.member_epoch) == (0, -1)


def test_version_0_gives_a_member_its_id() -> None:
    client = world()
    response = join(client, 0, member_id="")
    assert (response.error_code, len(response.member_id or "")) == (0, 22)
    assert join(client, 1, member_id="").error_code == ErrorCode.INVALID_REQUEST


def test_errors_have_words() -> None:
    client = world()
    response = join(client, subscribed_topic_regex="[")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "SubscribedTopicRegex `[`" in (response.error_message or "")
    stable(client, group_id="c")
    assert join(client, group_id="c").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_protocol_can_be_off() -> None:
    client = world(group_coordinator_rebalance_protocols="classic")
    assert join(client).error_code == ErrorCode.UNSUPPORTED_VERSION
    client = world()
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == 0
    assert join(client).error_code == ErrorCode.UNSUPPORTED_VERSION
