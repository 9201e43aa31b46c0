"""A cluster of an older version is upgraded broker by broker, while both versions serve it."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import psutil
import pytest

from kqueue.base.clock import wall_ms
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.demo.broker_processes import ClusterOfProcesses
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.tests.released import BEFORE_RELEASES
from kqueue.tests.source_tree import ROOT

SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 100,
}
TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "readers", "payments"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
CLUSTERS = {name: BEFORE_RELEASES[name] for name in ("2026-11-27",)}
"""Older brokers that can be in a cluster. The first release joins them by its tag."""


def released_tags() -> dict[str, str]:
    """Return the tag of each release, by its version; empty where there is no history."""
    if shutil.which("git") is None:
        return {}
    listed = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True)
    return {tag.removeprefix("v"): tag for tag in listed.stdout.split()}


@pytest.fixture
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The source of an older version, out of the history."""
    if shutil.which("git") is None:
        pytest.skip("there is no git to take the older version from the history with")
    archive = subprocess.run(["git", "archive", request.param, "kqueue"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history does not have {request.param}: this is no full clone")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tmp_path / "older", filter="data")
    return tmp_path / "older"


@pytest.mark.long
@pytest.mark.parametrize("older", [*CLUSTERS.values(), *released_tags().values()], indirect=True)
def test_nothing_is_lost_while_each_broker_of_a_cluster_is_upgraded(older: Path, tmp_path: Path) -> None:
    cluster = ClusterOfProcesses(tmp_path, {**SETTINGS, "kqueue.cluster.store": f"sqlite:{tmp_path / 'store.db'}"})
    with contextlib.chdir(older):  # where `python -m` looks first
        cluster.__enter__()
    assert {psutil.Process(broker.pid).cwd() for broker in cluster.brokers.values()} == {str(older.resolve())}
    with contextlib.closing(cluster.client()) as client, contextlib.ExitStack() as stack:
        stack.callback(cluster.kill)
        client.create_topics([NewTopic(TOPIC, len(PARTITIONS), 3, {"min.insync.replicas": "2"})])
        step(client, 0)
        for number, broker in cluster.brokers.items():
            broker.stop()
            step(client, 2 * number - 1)  # by the two that are left, which may be of two versions
            with contextlib.chdir(ROOT):
                broker.start()
            cluster.await_brokers(cluster.brokers.keys())
            cluster.await_in_sync(TOPIC, "__consumer_offsets", "__transaction_state")
            step(client, 2 * number)
        expected = [b"step %d" % number for number in range(7)]
        for partition in PARTITIONS:
            assert values(client, partition) == expected
        assert {row.offset for row in client.committed(GROUP).values()} == {len(expected)}


def step(client: Client, number: int) -> None:
    """Write a record to each partition, in a transaction, and commit a position after it."""
    producer = client.transactions.init(TRANSACTIONAL_ID, 60_000)
    client.transactions.add_partitions(producer, PARTITIONS)
    builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=0, transactional=True)
    builder.append(wall_ms(), b"key", b"step %d" % number)
    batch = builder.build()
    client.produce(dict.fromkeys(PARTITIONS, batch), transactional_id=TRANSACTIONAL_ID)
    client.transactions.end(producer, committed=True)
    client.commit(GROUP, dict.fromkeys(PARTITIONS, number + 1))


def values(client: Client, partition: TopicPartition) -> list[bytes | None]:
    """Return the values of all records that were committed."""
    found: list[bytes | None] = []
    offset, end = 0, client.offsets({partition: -1})[partition].offset
    while offset < end:
        fetched = client.fetch({partition: offset})[partition]
        for position, header in iter_batches(fetched.records):
            offset = header.last_offset + 1
            if not header.is_control:
                found += [record.value for record in iter_records(fetched.records, position)]
    return found
