from __future__ import annotations

from typing import Any

from kqueue.tests.api.group_client import commit, stable, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    TopicPartition,
    Topology,
)
from kqueue.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

VERSIONS = versions_of("streams_group_heartbeat")
AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
MISSING_INTERNAL_TOPICS = 3


def word_count(**configs: str) -> Topology:
    settings = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    words = TopicInfo(name="app-words", topic_configs=settings)
    return Topology(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=["app-words"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[words],
                state_changelog_topics=[TopicInfo(name="app-counts")],
            ),
        ]
    )


def joining(member_id: str = "m", group_id: str = "g", **fields: Any) -> StreamsGroupHeartbeatRequest:
    given = {
        "rebalance_timeout_ms": 60_000,
        "process_id": "p",
        "topology": Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    return StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, **{**given, **fields})


def join(client: SimulatedClient, **fields: Any) -> StreamsGroupHeartbeatResponse:
    response: StreamsGroupHeartbeatResponse = client.ask(joining(**fields), 0)
    return response


def beat(client: SimulatedClient, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields)
    response: StreamsGroupHeartbeatResponse = client.ask(request, 0)
    return response


@for_each("version", VERSIONS)
def test_a_member_gets_its_tasks_and_leaves(version: int) -> None:
    client = world(**AT_ONCE)
    response = client.ask(joining(), version)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", 2)
    assert (response.heartbeat_interval_ms, response.status) == (5000, [])
    assert response.active_tasks == [TaskIds(subtopology_id="0", partitions=[0, 1])]
    assert response.standby_tasks == response.warmup_tasks == []
    unchanged = beat(client, 2)
    assert (unchanged.active_tasks, unchanged.standby_tasks, unchanged.warmup_tasks) == (None, None, None)
    left = beat(client, -1)
    assert (left.error_code, left.member_epoch, left.status) == (0, -1, [])


def test_the_broker_creates_internal_topics() -> None:
    client = world(**AT_ONCE)
    first = join(client, topology=word_count(cleanup_policy="delete", retention_ms="-1"))
    assert first.status is not None
    assert [status.status_code for status in first.status] == [MISSING_INTERNAL_TOPICS]
    topics = client.sim.broker.topics
    assert [len(topics.get(name).partitions) for name in ("app-words", "app-counts")] == [2, 2]
    assert topics.get("app-words").config.overrides == {"cleanup.policy": ["delete"], "retention.ms": -1}
    second = beat(client, first.member_epoch)
    assert second.status == []
    assert second.active_tasks == [
        TaskIds(subtopology_id="0", partitions=[0, 1]),
        TaskIds(subtopology_id="1", partitions=[0, 1]),
    ]


def test_why_a_topic_can_not_be_created_is_told() -> None:
    client = world(**AT_ONCE)
    first = join(client, topology=word_count(cleanup_policy="burn"))
    told = beat(client, first.member_epoch)
    assert told.status is not None
    assert "Creation failed: app-words: " in told.status[0].status_detail
    assert "burn" in told.status[0].status_detail


def test_endpoints_are_known_to_all() -> None:
    client = world(**AT_ONCE)
    endpoint = Endpoint(host="h", port=9)
    response = join(client, user_endpoint=endpoint, client_tags=[KeyValue(key="k", value="v")])
    assert response.partitions_by_user_endpoint is not None
    (published,) = response.partitions_by_user_endpoint
    assert published.user_endpoint == endpoint
    assert published.active_partitions == [TopicPartition(topic="t", partitions=[0, 1])]
    known = beat(client, 2, endpoint_information_epoch=response.endpoint_information_epoch)
    assert known.partitions_by_user_endpoint is None


def test_tasks_of_one_subtopology_may_be_named_twice() -> None:
    client = world(**AT_ONCE)
    join(client)
    twice = [TaskIds(subtopology_id="0", partitions=[0]), TaskIds(subtopology_id="0", partitions=[1])]
    assert beat(client, 2, active_tasks=twice, standby_tasks=[], warmup_tasks=[]).error_code == 0


@for_each(
    "fields, code",
    [
        ({"topology": Topology(subtopologies=[Subtopology(subtopology_id="0")])}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"task_offsets": [TaskOffset(subtopology_id="0")]}, ErrorCode.INVALID_REQUEST),
        (
            {"topology": Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["a"])])},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"group_id": "c"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_errors_have_words(fields: dict[str, Any], code: ErrorCode) -> None:
    client = world(**AT_ONCE)
    stable(client, group_id="c")
    response = join(client, **fields)
    assert response.error_code == code
    assert response.error_message


def test_the_protocol_can_be_off() -> None:
    client = world(group_coordinator_rebalance_protocols="classic,consumer")
    assert join(client).error_code == ErrorCode.UNSUPPORTED_VERSION
    client = world()
    update = FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == 0
    assert join(client).error_code == ErrorCode.UNSUPPORTED_VERSION


@for_each("version", [8, 9])
def test_members_commit_from_version_9_of_offset_commit_on(version: int) -> None:
    client = world(**AT_ONCE)
    assert join(client).member_epoch == 2
    fields = {"generation_id_or_member_epoch": 2, "member_id": "m"}
    code = ErrorCode.UNSUPPORTED_VERSION if version < 9 else 0
    assert commit(client, {("t", 0): 5}, version, **fields) == {(0, 0): code}
    fields["member_id"] = "x"
    assert commit(client, {("t", 0): 6}, version, **fields) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}
