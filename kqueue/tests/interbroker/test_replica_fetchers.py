from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.broker.partition import Partition
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.tests.client.serving import batch, read_all
from kqueue.tests.served_cluster import bootstrap, eventually, served_cluster

SETTINGS = {"replica.fetch.backoff.ms": 50, "min.insync.replicas": 2}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[kqueue.Broker]]:
    with served_cluster(tmp_path, settings=SETTINGS) as brokers:
        yield brokers


def replica(broker: kqueue.Broker, topic: str, index: int = 0) -> Partition:
    return broker._server.broker.topics.partition(topic, index)


def ends(brokers: list[kqueue.Broker], topic: str, index: int = 0) -> list[tuple[int, int]]:
    found = [replica(broker, topic, index) for broker in brokers]
    return [(partition.log_end_offset, partition.high_watermark) for partition in found]


def test_followers_copy_what_acks_all_confirms(brokers: list[kqueue.Broker]) -> None:
    partitions = [TopicPartition("t", index) for index in range(6)]
    with Client(bootstrap(brokers), missing_topic_ms=10_000) as client:
        client.create_topics([NewTopic("t", 6, 3)])
        for _ in range(5):
            client.produce({one: batch([b"x" * 100] * 10) for one in partitions}, acks=-1)
        for one in partitions:
            eventually(lambda index=one.partition: ends(brokers, "t", index) == [(50, 50)] * 3)  # type: ignore[misc]
            assert len(read_all(client, one)) == 50
    leaders = {replica(brokers[0], "t", index).leader for index in range(6)}
    assert leaders == {1, 2, 3}
