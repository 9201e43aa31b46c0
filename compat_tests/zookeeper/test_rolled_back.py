"""ZooKeeper's data are replaced by an older copy, below brokers in processes of their own.

Such a store would elect leaders that lack confirmed records. Brokers that took part since refuse
it, whether they run or start, and name what to restore.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compat_tests.zookeeper.server import Server
from kqueue.client import LATEST, NewTopic, TopicPartition
from kqueue.demo.broker_processes import BrokerFailed, ClusterOfProcesses, until
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.tests.client.serving import batch

PARTITIONS = 3
SETTINGS = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}


class Rolled:
    """Three brokers over a server, and the records that were confirmed."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.data = server.folder / "data"
        self.copies = folder / "copies"
        self.store = f"{server.address}/rolled"
        self.cluster = ClusterOfProcesses(folder, {**SETTINGS, "kqueue.cluster.store": f"zookeeper:{self.store}"})
        self.confirmed: dict[TopicPartition, int] = {}

    def create(self, topic: str) -> None:
        with self.cluster.client() as client:
            client.create_topics([NewTopic(topic, PARTITIONS, 3)])

    def produce(self, topic: str, count: int) -> None:
        """Let all in-sync replicas confirm so many records in each partition."""
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        with self.cluster.client() as client:
            for _ in range(count // 10):
                client.produce({one: batch([b"record"] * 10) for one in partitions}, acks=-1, repeatable=True)
                for one in partitions:
                    self.confirmed[one] = self.confirmed.get(one, 0) + 10

    def assert_none_is_lost(self) -> None:
        with self.cluster.client() as client:
            fetched = client.offsets(dict.fromkeys(self.confirmed, LATEST))
        ends = {partition: offset.offset for partition, offset in fetched.items()}
        assert all(ends[partition] >= count for partition, count in self.confirmed.items()), (ends, self.confirmed)

    def copy(self, name: str) -> None:
        """Stop the server, keep its data under a name, and start it again."""
        self.server.kill()
        shutil.copytree(self.data, self.copies / name)
        self.server.start()

    def put_back(self, name: str) -> None:
        self.server.kill()
        shutil.rmtree(self.data)
        shutil.copytree(self.copies / name, self.data)
        self.server.start()

    def await_lines(self, text: str, *numbers: int) -> None:
        for number in numbers:
            said = self.cluster.brokers[number].said
            until(f"broker {number} says {text!r}", lambda said=said: text in said())  # type: ignore[misc]


@pytest.fixture
def rolled(tmp_path: Path, own_server: Server) -> Iterator[Rolled]:
    result = Rolled(tmp_path, own_server)
    with result.cluster:
        yield result


def test_brokers_refuse_an_older_copy_of_zookeeper_and_lose_no_record(rolled: Rolled) -> None:
    cluster = rolled.cluster
    rolled.create("orders")
    rolled.produce("orders", 100)
    cluster.await_in_sync("orders")
    rolled.copy("older")
    for broker in cluster.brokers.values():
        broker.kill()
        broker.start()
        rolled.produce("orders", 300)
        cluster.await_in_sync("orders")
    rolled.create("later")
    rolled.produce("later", 100)
    cluster.await_in_sync("orders", "later")
    rolled.copy("newest")

    rolled.put_back("older")
    rolled.await_lines("went back from commit", 1, 2, 3)
    rolled.produce("orders", 50)
    cluster.kill()
    for broker in cluster.brokers.values():
        with pytest.raises(BrokerFailed, match="is older than the data of broker"):
            broker.start()
    assert not list(cluster.data_folders[0].parents[1].glob("broker-*/data/*-stray"))

    rolled.put_back("newest")
    for broker in cluster.brokers.values():
        broker.launch()
    for broker in cluster.brokers.values():
        broker.wait()
    cluster.await_in_sync("orders", "later")
    rolled.assert_none_is_lost()


def test_brokers_that_run_do_not_follow_one_that_began_from_an_older_copy(rolled: Rolled) -> None:
    """It was away since, so nothing tells it that the copy is older."""
    cluster = rolled.cluster
    rolled.create("orders")
    rolled.produce("orders", 100)
    cluster.await_in_sync("orders")
    rolled.copy("older")
    cluster.brokers[3].kill()
    cluster.await_brokers({1, 2})
    rolled.produce("orders", 1000)
    rolled.copy("newest")

    rolled.put_back("older")
    cluster.brokers[3].start()
    rolled.await_lines("went back from commit", 1, 2)
    rolled.await_lines("in sync [] -> [3]", 3)
    with closing(ZookeeperStore(rolled.store)) as store:
        for number in range(500):  # more than the history of the store has
            store.commit({}, {"/fork": b"%d" % number}, [])
    cluster.brokers[3].kill()
    rolled.produce("orders", 50)
    rolled.assert_none_is_lost()

    rolled.put_back("newest")
    cluster.await_brokers({1, 2})
    rolled.assert_none_is_lost()
    rolled.produce("orders", 50)
