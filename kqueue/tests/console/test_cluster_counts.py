from __future__ import annotations

from kqueue.client import BrokerEndpoint, ClusterDescription, ClusterMetadata, PartitionMetadata, TopicMetadata
from kqueue.console.cluster_counts import FENCED, GONE, UP, broker_rows, topic_counts

ORDERS = TopicMetadata(
    "orders",
    bytes(16),
    {
        0: PartitionMetadata(1, 0, (1, 2), (1, 2)),
        1: PartitionMetadata(1, 0, (2, 1), (1,)),
        2: PartitionMetadata(-1, 0, (2, 3), ()),
    },
)
ONE, TWO = BrokerEndpoint(1, "a", 9092, "r1"), BrokerEndpoint(2, "b", 9092)
METADATA = ClusterMetadata({1: ONE}, {"orders": ORDERS}, "id", 1)


def test_partitions_without_leader_or_replica_in_sync_are_counted() -> None:
    counts = topic_counts(ORDERS)
    assert (counts.partitions, counts.replicas, counts.leaderless, counts.under_replicated) == (3, 2, 1, 2)


def test_a_partition_that_gets_replicas_is_not_under_replicated() -> None:
    assert topic_counts(ORDERS, {("orders", 1)}).under_replicated == 1


def test_brokers_that_are_fenced_or_gone_are_listed() -> None:
    description = ClusterDescription("id", 1, {1: ONE, 2: TWO}, frozenset({2}))
    first, second, third = broker_rows(METADATA, description)
    assert (first.state, first.is_controller, first.rack, first.load.leads) == (UP, True, "r1", 2)
    assert (second.state, second.address, second.load.out_of_sync) == (FENCED, "b:9092", 2)
    assert (third.id, third.state, third.address) == (3, GONE, "")


def test_without_a_description_only_the_listed_brokers_run() -> None:
    assert [row.state for row in broker_rows(METADATA)] == [UP, GONE, GONE]
