"""AlterReplicaLogDirs: each error, and what DescribeLogDirs shows of a move."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.replication.registrations import PartitionRegistration
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.harness import ErrorCode, SimulatedClient, batch, values, versions_of
from kqueue.tests.log.two_folders import place_of, run, start
from kqueue.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kqueue.wire.messages.describe_log_dirs import DescribeLogDirsRequest


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient(sim=start(FaultyStorage()))
    client.sim.topic("t", 2)
    client.produce("t", batch(b"one"))
    return client


def request(*moves: tuple[str, str, int]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[index])])
            for path, name, index in moves
        ]
    )


def codes(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_name, row.partition_index): row.error_code
        for topic in response.results
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of("alter_replica_log_dirs"))
def test_a_log_moves_and_each_error_is_kafkas(client: SimulatedClient, version: int) -> None:
    source = place_of(client.sim)
    target = "b" if source == "a" else "a"
    response = client.ask(
        request((target, "t", 0), ("nowhere", "t", 1), (target, "t", 7), (target, "x", 0), (target, "y" * 220, 0)),
        version,
    )
    assert codes(response) == {
        ("t", 0): 0,
        ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("y" * 220, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    run(client.sim)
    assert place_of(client.sim) == target
    assert values(client) == [b"one"]


def test_the_last_of_several_folders_counts(client: SimulatedClient) -> None:
    source = place_of(client.sim)
    target = "b" if source == "a" else "a"
    assert codes(client.ask(request((target, "t", 0), (source, "t", 0)), 2)) == {("t", 0): 0}
    run(client.sim)
    assert place_of(client.sim) == source


def test_a_log_that_is_offline_is_a_storage_error(client: SimulatedClient) -> None:
    client.sim.broker.topics.partition("t", 0).log.take_offline(StorageFailed("gone"))
    assert codes(client.ask(request(("a", "t", 0)), 1)) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}


def test_the_copy_is_a_future_replica_of_its_folder(client: SimulatedClient) -> None:
    target = "b" if place_of(client.sim) == "a" else "a"
    client.start(request((target, "t", 0)), 2)
    while not any(folder.futures for folder in (one.run() for one in client.sim.logs.list_log_dirs()[0])):
        assert client.sim.jobs.step() or client.sim.broker.scheduler.purgatory.run_ready()
    response = client.start(DescribeLogDirsRequest(topics=None), 4)
    while response.response is None:
        assert client.sim.jobs.step() or client.sim.broker.scheduler.purgatory.run_ready()
    rows = {
        (folder.log_dir, row.partition_index): row
        for folder in response.response.results
        for topic in folder.topics
        for row in topic.partitions
        if row.partition_index == 0
    }
    assert {place: row.is_future_key for (place, _), row in rows.items()} == {
        target: True,
        "ab".replace(target, ""): False,
    }
    assert 0 <= rows[target, 0].offset_lag <= 1


def test_an_unexpected_failure_is_reported_for_each_partition(client: SimulatedClient) -> None:
    from kqueue.api.handlers.alter_replica_log_dirs import error_response

    response = error_response(request(("a", "t", 0), ("b", "t", 1)), 2, StorageFailed("x"))
    assert codes(response) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_log_whose_replicas_are_elsewhere_is_not_moved_here() -> None:
    client = ClusterClient()
    client.topic("t", PartitionRegistration((2, 3), (2, 3), 2), PartitionRegistration((1, 2), (1, 2), 2))
    place = client.sim.logs.list_log_dirs(None)[0][0].place
    response = client.ask(request((place, "t", 0), (place, "t", 1)), 2)
    assert codes(response) == {("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER, ("t", 1): 0}
