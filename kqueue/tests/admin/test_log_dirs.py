from __future__ import annotations

import kqueue
from kqueue.admin.log_dirs import LeaderSize, TopicSize, leader_sizes, log_dirs, topic_sizes
from kqueue.client import Client, ClusterMetadata, LogDir, PartitionMetadata, TopicMetadata, TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_folders_and_sizes_of_a_broker_are_read() -> None:
    with kqueue.Broker(node_id=7) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        broker.topics["t"].produce_all(["x"] * 10, partition=0)
        metadata = client.metadata()
        read = log_dirs(client, metadata.brokers)
        (folder,) = read.by_broker[7]
        assert (folder.code, set(folder.sizes), folder.future_sizes) == (0, {ONE, TWO}, {})
        assert folder.size == sum(folder.sizes.values()) > 0
        sizes = topic_sizes(read.by_broker, metadata)
        assert sizes == {"t": TopicSize(folder.size, folder.size)}
        assert leader_sizes(read.by_broker, metadata) == {one: (7, size) for one, size in folder.sizes.items()}


def test_a_broker_that_fails_hides_no_other() -> None:
    with kqueue.Broker(node_id=7) as broker, Client(broker.bootstrap, timeout_ms=2_000) as client:
        read = log_dirs(client, [7, 8])
        assert (list(read.by_broker), list(read.failed)) == ([7], [8])
        assert "no broker 8" in str(read.failed[8])


def test_the_leaders_size_counts_once_and_copies_on_their_way_do_not() -> None:
    metadata = ClusterMetadata(
        {}, {"t": TopicMetadata("t", bytes(16), {0: PartitionMetadata(1), 1: PartitionMetadata(3)})}
    )
    dirs = {
        1: [LogDir("/a", 0, {ONE: 10}, {}), LogDir("/b", 0, {}, {ONE: 4})],
        2: [LogDir("/a", 0, {ONE: 9, TWO: 1}, {})],
    }
    assert leader_sizes(dirs, metadata) == {ONE: LeaderSize(1, 10)}
    assert topic_sizes(dirs, metadata) == {"t": TopicSize(leaders=10, replicas=20)}
