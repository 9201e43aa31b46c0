from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.broker.replicas.partition import Partition
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.tests.client.serving import batch, read_all
from kqueue.tests.served_cluster import bootstrap, served_cluster
from kqueue.tests.waits import eventually

SETTINGS = {"replica.fetch.backoff.ms": 50, "min.insync.replicas": 2}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[kqueue.Broker]]:
    with served_cluster(tmp_path, settings=SETTINGS) as brokers:
        yield brokers


def replica(broker: kqueue.Broker, topic: str, index: int = 0) -> Partition:
    return broker._server.broker.topics.partition(topic, index)


def ends(brokers: list[kqueue.Broker], topic: str, index: int = 0) -> list[tuple[int, int]]:
    replicas = [replica(broker, topic, index) for broker in brokers]
    return [(partition.log_end_offset, partition.high_watermark) for partition in replicas]


def has_replica(broker: kqueue.Broker, index: int) -> bool | None:
    """Return whether it has a replica of the partition; None: it does not know the topic yet."""
    topic = broker._server.broker.topics.find("t")
    return None if topic is None else topic.partitions[index].has_replica


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


@pytest.mark.long
def test_a_new_replica_copies_what_is_there_while_the_leader_serves(
    brokers: list[kqueue.Broker], caplog: pytest.LogCaptureFixture
) -> None:
    partitions = [TopicPartition("t", index) for index in range(4)]
    with Client(bootstrap(brokers), missing_topic_ms=10_000) as client:
        client.create_topics([NewTopic("t", 4, 3)])
        assert client.cluster.reassign({one: [1, 2] for one in partitions}) == {}
        for index in range(4):
            eventually(lambda index=index: has_replica(brokers[2], index) is False)  # type: ignore[misc]
        for _ in range(10):
            client.produce({one: batch([b"x" * 900_000]) for one in partitions}, acks=-1)
        assert client.cluster.reassign({one: [1, 2, 3] for one in partitions}) == {}
        for index in range(4):
            eventually(lambda index=index: has_replica(brokers[2], index) is True)  # type: ignore[misc]
        for one in partitions:
            eventually(lambda index=one.partition: ends(brokers, "t", index) == [(10, 10)] * 3)  # type: ignore[misc]
        client.produce({one: batch([b"after"]) for one in partitions}, acks=-1)
        for one in partitions:
            eventually(lambda index=one.partition: ends(brokers, "t", index) == [(11, 11)] * 3)  # type: ignore[misc]
    assert "event loop has been blocked" not in caplog.text


def test_the_followers_of_a_broker_that_stops_take_over_and_it_catches_up(brokers: list[kqueue.Broker]) -> None:
    one = TopicPartition("t", 0)
    with Client(bootstrap(brokers), missing_topic_ms=10_000) as client:
        client.create_topics([NewTopic("t", 1, 3)])
        client.produce({one: batch([b"a"])}, acks=-1)
        brokers[0].restart()
        client.produce({one: batch([b"b"])}, acks=-1, repeatable=True)
        eventually(lambda: ends(brokers, "t")[0][0] == ends(brokers, "t")[1][0] >= 2)
        eventually(lambda: len(set(ends(brokers, "t"))) == 1)
        assert replica(brokers[0], "t").leader in (1, 2, 3)
