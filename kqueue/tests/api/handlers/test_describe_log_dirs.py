from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.manager import LogDirDescription, LogManager
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch, versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

VERSIONS = versions_of("describe_log_dirs")


def describe(
    client: SimulatedClient, version: int, wanted: dict[str, list[int]] | None = None
) -> DescribeLogDirsResponse:
    topics = (
        None
        if wanted is None
        else [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in wanted.items()]
    )
    response: DescribeLogDirsResponse = client.ask(DescribeLogDirsRequest(topics=topics), version)
    assert response.error_code == 0
    return response


def sizes(response: DescribeLogDirsResponse) -> dict[tuple[str, int], int]:
    """Bytes of each partition, in all folders."""
    bytes_by_partition = {}
    for folder in response.results:
        for topic in folder.topics:
            for partition in topic.partitions:
                assert (partition.offset_lag, partition.is_future_key) == (0, False)
                bytes_by_partition[topic.name, partition.partition_index] = partition.partition_size
    return bytes_by_partition


def world(storage: Storage) -> SimulatedClient:
    client = SimulatedClient(sim=Simulation(storage=storage))
    client.sim.topic("t", 2)
    client.sim.topic("u")
    client.produce("t", batch(b"a"))
    return client


@pytest.fixture
def client() -> SimulatedClient:
    return world(MemoryStorage())


def test_each_folder_returns_its_partitions_and_free_space(tmp_path: Path) -> None:
    """S3.1: the folders of log.dirs, and what lies in them."""
    client = world(LocalStorage(str(tmp_path)))
    for version in VERSIONS:
        response = describe(client, version)
        (folder,) = response.results
        assert (folder.error_code, folder.log_dir, folder.is_cordoned) == (0, str(tmp_path), False)
        assert sizes(response) == {("t", 0): len(batch(b"a")), ("t", 1): 0, ("u", 0): 0}
        if version >= 4:
            assert 0 < folder.usable_bytes < folder.total_bytes
        else:
            assert (folder.usable_bytes, folder.total_bytes) == (-1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_requested_partitions_are_returned(client: SimulatedClient, version: int) -> None:
    assert set(sizes(describe(client, version, {"t": [1, 7], "nobody": [0]}))) == {("t", 1)}
    assert sizes(describe(client, version, {})) == {}
    assert len(describe(client, version, {}).results) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_sizes_are_those_of_logs_that_are_not_open_too(client: SimulatedClient, version: int) -> None:
    before = sizes(describe(client, version))
    client.sim.stop()
    again = SimulatedClient(sim=client.sim.restarted())
    assert sizes(describe(again, version)) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_that_is_offline_says_so_and_the_others_answer(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.1"""
    client = SimulatedClient()
    told = [
        LogDirDescription("/a", None, StorageFailed("/a is offline"), None, None, {}),
        LogDirDescription("/b", "id", None, None, 7, {("t", 3): 11, ("s", 0): 5}),
    ]
    monkeypatch.setattr(client.sim.broker.logs, "list_log_dirs", lambda wanted: ([], told))
    response = describe(client, version)
    assert [(folder.log_dir, folder.error_code, len(folder.topics)) for folder in response.results] == [
        ("/a", ErrorCode.KAFKA_STORAGE_ERROR, 0),
        ("/b", 0, 2),
    ]
    assert sizes(response) == {("t", 3): 11, ("s", 0): 5}
    assert response.results[1].usable_bytes == (7 if version >= 4 else -1)
    assert response.results[1].total_bytes == -1


def test_memory_storage_reports_no_size_limits() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    client.produce("t", batch(b"a"))
    response: Any = describe(client, 4)
    assert sizes(response) == {("t", 0): len(batch(b"a"))}
    assert (response.results[0].total_bytes, response.results[0].usable_bytes) == (-1, -1)


def test_a_folder_that_could_not_be_opened_is_offline() -> None:
    """S3.1: with the log manager's own words for it."""
    storages = [MemoryStorage(), MemoryStorage()]
    clock, rng = ManualClock(), random.Random(1)
    LogManager(storages, clock=clock, rng=rng).close()
    storages[1].write_atomic("meta.properties", b"garbage\n")
    client = SimulatedClient()
    client.sim.broker.logs = LogManager(storages, clock=clock, rng=rng)
    assert [folder.error_code for folder in describe(client, 4).results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


def test_folders_are_listed_in_jobs_of_their_own_and_only_for_what_is_asked_for(tmp_path: Path) -> None:
    listed = list[str]()

    class Listed(LocalStorage):
        def list(self, folder: str) -> Any:
            listed.append(folder)
            return super().list(folder)

    client = world(Listed(str(tmp_path)))
    client.sim.stop()
    again = SimulatedClient(sim=client.sim.restarted())
    listed.clear()
    started = again.start(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[1])]), 4)
    assert started.response is None
    assert listed == [], "nothing is listed on the owner thread"
    again.sim.settle()
    assert sizes(started.response) == {("t", 1): 0}
    assert listed == ["t-1"]
