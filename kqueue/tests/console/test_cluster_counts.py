from __future__ import annotations

from kqueue.client import BrokerEndpoint, ClusterMetadata, PartitionMetadata, TopicMetadata
from kqueue.console.cluster_counts import cluster_counts, topic_counts

ORDERS = TopicMetadata(
    "orders",
    bytes(16),
    {
        0: PartitionMetadata(1, 0, (1, 2), (1, 2)),
        1: PartitionMetadata(1, 0, (2, 1), (1,)),
        2: PartitionMetadata(-1, 0, (2, 3), ()),
    },
)
METADATA = ClusterMetadata(
    {1: BrokerEndpoint(1, "a", 9092, "r1"), 2: BrokerEndpoint(2, "b", 9092)}, {"orders": ORDERS}, "id", 1
)


def test_partitions_without_leader_or_replica_in_sync_are_counted() -> None:
    counts = topic_counts(ORDERS)
    assert (counts.partitions, counts.replicas, counts.leaderless, counts.under_replicated) == (3, 2, 1, 2)


def test_the_counts_of_brokers_include_one_that_is_gone() -> None:
    counts = cluster_counts(METADATA, fenced=[2])
    assert (counts.brokers, counts.topics, counts.partitions, counts.leaderless) == (2, 1, 3, 1)
    first, second, gone = counts.rows
    assert (first.leads, first.replicas, first.out_of_sync, first.is_controller, first.is_fenced) == (
        2,
        2,
        0,
        True,
        False,
    )
    assert (second.replicas, second.out_of_sync, second.is_fenced) == (3, 2, True)
    assert (gone.id, gone.is_fenced, gone.replicas) == (3, True, 1)
    assert "down" in gone.address
