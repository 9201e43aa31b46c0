from __future__ import annotations

import pytest

from kqueue.broker.replicas.partition import Partition
from kqueue.replication.registrations import NO_LEADER, Endpoint, PartitionRegistration
from kqueue.tests.api.cluster_client import INSIDE, OUTSIDE, ClusterClient, broker
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_cluster import DescribeClusterRequest
from kqueue.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kqueue.wire.messages.metadata import MetadataRequest

WHOLE = PartitionRegistration((2, 3, 1), (2, 3), 2, leader_epoch=7)


def rows(client: SimulatedClient, version: int = 13) -> list[tuple[object, ...]]:
    """Each partition of the only topic: error, leader, replicas, in sync, offline."""
    (topic,) = client.ask(MetadataRequest(topics=None if version else []), version).topics
    return [
        (ErrorCode(row.error_code), row.leader_id, row.replica_nodes, row.isr_nodes, row.offline_replicas)
        for row in topic.partitions
    ]


@for_each("listener, host, port", [(INSIDE, "in", 9000), (OUTSIDE, "out", 9100)])
def test_clients_get_the_endpoints_of_the_listener_they_came_by(listener: str, host: str, port: int) -> None:
    client = ClusterClient()
    wanted = [(1, f"{host}1", port + 1, None), (2, f"{host}2", port + 2, "r2"), (3, f"{host}3", port + 3, None)]
    metadata = client.ask(MetadataRequest(topics=[]), 13, listener=listener)
    assert [(row.node_id, row.host, row.port, row.rack) for row in metadata.brokers] == wanted
    assert metadata.controller_id == 2
    described = client.ask(DescribeClusterRequest(), 2, listener=listener)
    assert [(row.broker_id, row.host, row.port, row.rack) for row in described.brokers] == wanted
    assert described.controller_id == 2


def test_fenced_brokers_are_shown_to_those_who_ask_for_them() -> None:
    client = ClusterClient({}, broker(1), broker(2, fenced=True), broker(3), broker(4, outside=False))
    assert [row.node_id for row in client.ask(MetadataRequest(topics=[]), 13).brokers] == [1, 3]
    assert [row.broker_id for row in client.ask(DescribeClusterRequest(), 2).brokers] == [1, 3]
    everyone = client.ask(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    assert [(row.broker_id, row.is_fenced) for row in everyone] == [(1, False), (2, True), (3, False)]


def test_metadata_never_lists_zero_brokers() -> None:
    """librdkafka does not recover from an empty list."""
    client = ClusterClient({}, broker(1, fenced=True), broker(2, fenced=True))
    assert [(row.node_id, row.host) for row in client.ask(MetadataRequest(topics=[]), 13).brokers] == [(1, "out1")]
    client.register(broker(2))
    assert [row.node_id for row in client.ask(MetadataRequest(topics=[]), 13).brokers] == [2]


def test_a_broker_that_has_not_registered_names_itself() -> None:
    client = ClusterClient({}, broker(2, fenced=True))
    assert client.ask(MetadataRequest(topics=[]), 13).brokers == []
    client.sim.broker.identity.listeners = {OUTSIDE: Endpoint("here", 9092)}
    (row,) = client.ask(MetadataRequest(topics=[]), 13).brokers
    assert (row.node_id, row.host, row.port) == (1, "here", 9092)


@for_each("controller", [NO_LEADER, 2])
def test_without_a_controller_that_clients_reach_this_broker_is_named(controller: int) -> None:
    client = ClusterClient({}, broker(1), broker(2, fenced=True))
    client.cluster.controller_id = controller
    assert client.ask(MetadataRequest(topics=[]), 13).controller_id == 1
    assert client.ask(DescribeClusterRequest(), 2).controller_id == 1


def test_partitions_are_shown_as_they_are_registered() -> None:
    client = ClusterClient()
    client.topic("orders", WHOLE, PartitionRegistration((1,), (1,), 1, leader_epoch=2))
    assert rows(client) == [(ErrorCode.NONE, 2, [2, 3, 1], [2, 3], []), (ErrorCode.NONE, 1, [1], [1], [])]
    (topic,) = client.ask(MetadataRequest(topics=None), 13).topics
    assert [row.leader_epoch for row in topic.partitions] == [7, 2]


def test_replicas_of_fenced_brokers_and_of_those_out_of_reach_are_offline() -> None:
    client = ClusterClient({}, broker(1), broker(2), broker(3, fenced=True))
    client.topic("orders", PartitionRegistration((2, 3, 9), (2,), 2))
    assert rows(client) == [(ErrorCode.NONE, 2, [2, 3, 9], [2], [3, 9])]
    assert rows(client, 0) == [(ErrorCode.REPLICA_NOT_AVAILABLE, 2, [2], [2], [])]


def test_a_partition_without_a_leader() -> None:
    client = ClusterClient({}, broker(1), broker(2, fenced=True), broker(3))
    client.topic("orders", PartitionRegistration((2, 3), (2,), NO_LEADER))
    assert rows(client) == [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [2, 3], [2], [2])]


def test_a_leader_without_the_listener_of_the_client() -> None:
    client = ClusterClient({}, broker(1), broker(2, outside=False), broker(3))
    client.topic("orders", WHOLE)
    for version, code in ((13, ErrorCode.LISTENER_NOT_FOUND), (5, ErrorCode.LEADER_NOT_AVAILABLE)):
        assert rows(client, version) == [(code, -1, [2, 3, 1], [2, 3], [2])]


def test_a_failed_log_takes_this_broker_alone_out(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ClusterClient()
    client.topic("orders", WHOLE._replace(isr=(2, 1)), PartitionRegistration((1, 2), (1, 2), 1))
    monkeypatch.setattr(Partition, "is_offline", True)
    assert rows(client) == [
        (ErrorCode.NONE, 2, [2, 3, 1], [2], [1]),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1, 2], [2], [1]),
    ]


def test_eligible_replicas_are_described() -> None:
    client = ClusterClient({}, broker(1), broker(2, fenced=True), broker(3, fenced=True))
    client.topic(
        "orders",
        PartitionRegistration((1, 2, 3), (1,), 1, elr=(2,)),
        PartitionRegistration((2, 3), (), NO_LEADER, last_known_leader=3),
    )
    (topic,) = client.ask(DescribeTopicPartitionsRequest(response_partition_limit=100), 0).topics
    first, second = topic.partitions
    assert (first.leader_id, first.isr_nodes, first.offline_replicas) == (1, [1], [2, 3])
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([2], [])
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (second.eligible_leader_replicas, second.last_known_elr) == ([], [3])
