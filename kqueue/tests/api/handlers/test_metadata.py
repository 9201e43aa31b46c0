from __future__ import annotations

import pytest

from kqueue.api import handler_table
from kqueue.base.errors import StorageFailed
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic


def named(*names: str | None, **fields: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def by_name(response: MetadataResponse) -> dict[str | None, MetadataResponseTopic]:
    return {topic.name: topic for topic in response.topics}


@for_each("version", versions_of("metadata"))
def test_returns_brokers_and_the_leader_of_each_partition(version: int) -> None:
    client = SimulatedClient({"node.id": 4, "broker.rack": "r"})
    client.sim.broker.identity.endpoints = lambda listener: (listener.lower(), 9)
    topic = client.sim.topic("orders", 3)
    response = client.ask(named("orders"), version, listener="OUTSIDE")
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (4, "outside", 9)
    assert broker.rack == ("r" if version >= 1 else None)
    assert response.controller_id == (4 if version >= 1 else -1)
    assert response.cluster_id == (client.sim.broker.identity.cluster_id if version >= 2 else None)
    (told,) = response.topics
    assert (told.error_code, told.name, told.is_internal) == (0, "orders", False)
    assert told.topic_id == (topic.id if version >= 10 else bytes(16))
    assert [partition.partition_index for partition in told.partitions] == [0, 1, 2]
    for partition in told.partitions:
        assert (partition.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (
            0,
            4,
            [4],
            [4],
        )
        assert partition.leader_epoch == (
            client.sim.broker.replicas.host.sole_replica.leader_epoch if version >= 7 else -1
        )
        assert partition.offline_replicas == []


@for_each("version", versions_of("metadata"))
def test_null_is_all_topics_and_in_version_0_so_is_an_empty_list(version: int) -> None:
    client = SimulatedClient()
    for name in ("b", "a"):
        client.sim.topic(name)
    all_topics = MetadataRequest(topics=None) if version else MetadataRequest(topics=[])
    assert sorted(by_name(client.ask(all_topics, version))) == ["a", "b"]
    if version:
        response = client.ask(MetadataRequest(topics=[]), version)
        assert (response.topics, len(response.brokers)) == ([], 1)


@for_each("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    client = SimulatedClient()
    topic = client.sim.topic("orders")
    ids = [topic.id, b"\x01" * 16]
    response = client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=id, name=None) for id in ids]), version)
    known, unknown = response.topics
    assert (known.error_code, known.name, known.topic_id, len(known.partitions)) == (0, "orders", topic.id, 1)
    assert (unknown.error_code, unknown.name, unknown.topic_id, unknown.partitions) == (
        ErrorCode.UNKNOWN_TOPIC_ID,
        None,
        ids[1],
        [],
    )


@for_each("version", [10, 11])
def test_ids_are_refused_where_the_version_has_them_but_may_not_use_them(version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"\x01" * 16, name="")])
    served = handler_table.load("metadata")
    with pytest.raises(Exception, match="by id") as caught:
        SimulatedClient().ask(request, version)
    response = served.error_response(request, version, caught.value)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]


@for_each("version", versions_of("metadata"))
def test_a_topic_that_is_asked_for_comes_to_be_and_the_answer_has_its_leaders(version: int) -> None:
    client = SimulatedClient({"num.partitions": 2})
    started = client.start(named("new"), version)
    assert started.response is None  # it waits until the topic is stored
    client.sim.settle()
    (topic,) = started.response.topics  # type: ignore[attr-defined]
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "new", 2)
    assert client.sim.broker.topics.get("new").partitions


def test_a_topic_asked_for_twice_is_created_once() -> None:
    client = SimulatedClient()
    started = [client.start(named("new", "new"), 9) for _ in range(2)]
    client.sim.settle()
    for pending in started:
        assert [(topic.error_code, topic.name) for topic in pending.response.topics] == [(0, "new")]


@for_each(
    "settings, fields",
    [({"auto.create.topics.enable": False}, {}), ({}, {"allow_auto_topic_creation": False})],
)
def test_no_topic_is_created_against_the_setting_or_the_clients_word(
    settings: dict[str, bool], fields: dict[str, bool]
) -> None:
    client = SimulatedClient(settings)
    (topic,) = client.ask(named("new", **fields), 9).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.sim.broker.topics.find("new") is None


@for_each("name", ["", ".", "a b", "x" * 250, "../../etc"])
@for_each("creates", [True, False])
def test_invalid_names_are_reported(name: str, creates: bool) -> None:
    (topic,) = SimulatedClient().ask(named(name, allow_auto_topic_creation=creates), 9).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def test_a_name_that_collides_is_refused() -> None:
    client = SimulatedClient()
    client.sim.topic("a.b")
    assert by_name(client.ask(named("a_b"), 9))["a_b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_coordinators_topics_come_when_asked_for() -> None:
    client = SimulatedClient(
        {
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.num.partitions": 5,
        }
    )
    names = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    topics = [by_name(client.ask(named(name), 9))[name] for name in names]
    assert all(topic.is_internal for topic in topics)
    assert [(topic.error_code, len(topic.partitions)) for topic in topics] == [(0, 3), (0, 4), (0, 5)]


def test_a_slow_creation_is_reported_as_leader_not_available() -> None:
    client = SimulatedClient()
    client.sim.jobs.submit = lambda job: None  # a disk that never answers
    started = client.start(named("new"), 9)
    client.sim.advance(4_999)
    assert started.response is None
    client.sim.advance(1)
    (topic,) = started.response.topics  # type: ignore[attr-defined]
    assert (topic.error_code, topic.name) == (ErrorCode.LEADER_NOT_AVAILABLE, "new")


def test_a_failed_creation_is_reported() -> None:
    client = SimulatedClient()

    def fail(*_: object) -> None:
        raise StorageFailed("no")

    client.sim.store.commit = fail
    (topic,) = client.ask(named("new"), 9).topics
    assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@for_each("version", range(8, 14))
def test_authorized_operations_are_returned_on_request(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("orders")
    cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
    response = client.ask(named("orders", include_topic_authorized_operations=True, **cluster), version)
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.cluster_authorized_operations == (8096 if cluster else -(2**31))
    assert client.ask(named("orders"), version).topics[0].topic_authorized_operations == -(2**31)


def test_a_partition_whose_disk_failed_has_no_leader() -> None:
    client = SimulatedClient()
    partition = client.sim.topic("orders", 2).partition(1)
    partition.log._fail(StorageFailed("an fsync failed"))
    assert all(
        partition_data.leader_id == 1 for partition_data in client.ask(named("orders"), 9).topics[0].partitions
    ), "a read-only one can be consumed"
    partition.log.take_offline(StorageFailed("the disk is gone"))
    good, bad = client.ask(named("orders"), 9).topics[0].partitions
    assert (good.error_code, good.leader_id) == (0, 1)
    assert (bad.error_code, bad.leader_id, bad.replica_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
    assert (bad.isr_nodes, bad.offline_replicas) == ([], [1])
