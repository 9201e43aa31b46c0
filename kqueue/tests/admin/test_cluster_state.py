from __future__ import annotations

import kqueue
from kqueue.admin.cluster_state import BrokerLoad, broker_loads, min_isr_of, partition_counts
from kqueue.client import (
    BrokerEndpoint,
    Client,
    ClusterMetadata,
    PartitionMetadata,
    Reassignment,
    TopicMetadata,
    TopicPartition,
)


def partition(leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> PartitionMetadata:
    return PartitionMetadata(leader, 0, replicas, in_sync)


METADATA = ClusterMetadata(
    {id: BrokerEndpoint(id, "h", 9092) for id in (1, 2)},
    {
        "a": TopicMetadata("a", bytes(16), {0: partition(1, (1, 3), (1,)), 1: partition(1, (2, 1), (1, 2))}),
        "b": TopicMetadata("b", bytes(16), {0: partition(-1, (3,), ())}),
    },
)


def test_loads_are_those_of_each_broker_that_runs_or_has_replicas() -> None:
    assert broker_loads(METADATA) == {
        1: BrokerLoad(leads=2, preferred=1, replicas=2, out_of_sync=0),
        2: BrokerLoad(leads=0, preferred=1, replicas=1, out_of_sync=0),
        3: BrokerLoad(leads=0, preferred=1, replicas=2, out_of_sync=2),
    }


def test_partitions_are_counted_by_condition() -> None:
    moving = {TopicPartition("a", 0): Reassignment((1, 3), (3,), ())}
    assert partition_counts(METADATA, moving, {"a": 2}) == {
        "partitions": 3,
        "under_replicated": 1,  # "a" 0 only gains a replica
        "unavailable": 1,
        "under_min_isr": 2,
        "at_min_isr": 1,
        "not_preferred": 1,
        "reassigning": 1,
    }


def test_min_isr_is_that_of_each_topic() -> None:
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("a")
        broker.create_topic("b", min_insync_replicas=2)
        assert min_isr_of(client, ["a", "b"]) == {"a": 1, "b": 2}
        assert min_isr_of(client, []) == {}
