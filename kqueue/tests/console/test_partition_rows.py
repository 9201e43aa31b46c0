from __future__ import annotations

import pytest

from kqueue.client import PartitionMetadata, Reassignment, TopicPartition
from kqueue.console.partition_rows import ReplicaStates, lacking_replicas, spread

ORDERS = TopicPartition("orders", 0)


def states(**given: object) -> ReplicaStates:
    known = {"listed": {1, 2}, "fenced": frozenset(), "sizes": {1: {ORDERS: 1_000}}, "moving": {}}
    return ReplicaStates(**(known | given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listed": {1}}, "broker 2 is down, or was removed"),
        ({"fenced": {2}}, "broker 2 is fenced"),
        ({"sizes": {}}, "is behind its leader; broker 2 runs"),
        ({"sizes": {1: {ORDERS: 1_000}, 2: {ORDERS: 400}}}, "it has 400 B of 1.0 kB, 600 B are missing"),
        ({"sizes": {1: {ORDERS: 1_000}, 2: {ORDERS: 1_000}}}, "has all bytes: it rejoins soon"),
        ({"moving": {ORDERS: Reassignment((1, 2), (2,), ())}}, "is being added"),
    ],
)
def test_the_replica_that_lacks_is_named_with_its_state(given: dict[str, object], words: str) -> None:
    [sentence] = lacking_replicas(ORDERS, PartitionMetadata(1, 0, (1, 2), (1,)), states(**given))
    assert sentence.startswith("Replica 2")
    assert words in sentence


def test_an_offline_folder_is_named() -> None:
    [sentence] = lacking_replicas(ORDERS, PartitionMetadata(1, 0, (1, 2), (1,), (2,)), states())
    assert "its data folder is offline on broker 2" in sentence


def test_a_partition_without_a_leader_says_who_was_in_sync() -> None:
    first, *_ = lacking_replicas(ORDERS, PartitionMetadata(-1, 0, (1, 2), (2,)), states())
    assert first.startswith("No leader")
    assert "in sync before: 2" in first


def test_a_partition_in_sync_lacks_nothing() -> None:
    assert lacking_replicas(ORDERS, PartitionMetadata(1, 0, (1, 2), (2, 1)), states()) == []


def test_numbers_of_replicas_are_one_or_a_range() -> None:
    assert spread([PartitionMetadata(1, 0, (1,)), PartitionMetadata(1, 0, (1, 2, 3))]) == "1–3"
    assert spread([PartitionMetadata(1, 0, (1, 2))]) == "2"
    assert spread([]) == "0"
