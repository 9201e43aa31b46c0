"""A standby that lacks commits is promoted, below brokers in processes of their own.

As any older copy of a store it would elect leaders that lack confirmed records. Brokers that took
part since say so, follow nothing from it, and lose no record.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.postgres.server import Server
from kqueue.client import LATEST, NewTopic, TopicPartition
from kqueue.demo.broker_processes import BrokerFailed, ClusterOfProcesses, until
from kqueue.tests.client.serving import batch

PARTITIONS = 3
SETTINGS = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}


class Records:
    """Topics of a cluster, and how many records of each partition were confirmed."""

    def __init__(self, cluster: ClusterOfProcesses) -> None:
        self._cluster = cluster
        self._confirmed: dict[TopicPartition, int] = {}

    def create(self, topic: str) -> None:
        with self._cluster.client() as client:
            client.create_topics([NewTopic(topic, PARTITIONS, 3)])

    def produce(self, topic: str, count: int) -> None:
        """Let all in-sync replicas confirm so many records in each partition."""
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        with self._cluster.client() as client:
            for _ in range(count // 10):
                client.produce({one: batch([b"record"] * 10) for one in partitions}, acks=-1, repeatable=True)
                for one in partitions:
                    self._confirmed[one] = self._confirmed.get(one, 0) + 10

    def assert_none_is_lost(self) -> None:
        with self._cluster.client() as client:
            fetched = client.offsets(dict.fromkeys(self._confirmed, LATEST))
        ends = {partition: offset.offset or 0 for partition, offset in fetched.items()}
        assert all(ends[partition] >= count for partition, count in self._confirmed.items()), (ends, self._confirmed)


def test_brokers_refuse_a_promoted_standby_that_lacks_commits_and_lose_no_record(tmp_path: Path) -> None:
    with Server() as primary, Server(primary=primary) as standby:
        store = f"postgresql://kqueue@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        cluster = ClusterOfProcesses(tmp_path, {**SETTINGS, "kqueue.cluster.store": store})
        with cluster:
            records = Records(cluster)
            records.create("orders")
            records.produce("orders", 50)
            cluster.await_in_sync("orders")
            standby.stop()  # it is asynchronous, and gets nothing of what follows
            for broker in cluster.brokers.values():
                broker.kill()
                broker.start()
                records.produce("orders", 100)
                cluster.await_in_sync("orders")
            records.create("later")
            records.produce("later", 50)
            cluster.await_in_sync("orders", "later")

            primary.kill()
            standby.start()
            standby.promote()
            for broker in cluster.brokers.values():
                until("it says that the store went back", lambda said=broker.said: "went back from commit" in said())  # type: ignore[misc]
            records.produce("orders", 20)
            cluster.kill()
            for broker in cluster.brokers.values():
                with pytest.raises(BrokerFailed, match="is older than the data of broker"):
                    broker.start()

            standby.stop()
            primary.start()
            for broker in cluster.brokers.values():
                broker.launch()
            for broker in cluster.brokers.values():
                broker.wait()
            cluster.await_in_sync("orders", "later")
            records.assert_none_is_lost()
