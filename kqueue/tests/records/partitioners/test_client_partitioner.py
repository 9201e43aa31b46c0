from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner as AioDefault
from kafka import KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.partitioner import DefaultPartitioner, Partitioner

from kqueue.records.partitioners import as_client_partitioner
from kqueue.records.partitioners.client_partitioner import ClientPartitioner
from kqueue.tests.tables import for_each


class Cluster:
    """The two questions that a partitioner asks of kafka-python's metadata."""

    def __init__(self, partitions: set[int] | None, available: set[int] | None) -> None:
        self.partitions, self.available = partitions, available

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self.partitions

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        return self.available


class Spy:
    """Puts all records in the last partition and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        self.asked.append((key, count, available, value, topic))
        return count - 1


def test_the_cluster_of_this_test_answers_as_kafka_pythons() -> None:
    for name in ("topics", "partitions_for_topic", "available_partitions_for_topic"):
        assert hasattr(ClusterMetadata, name)


def test_as_aiokafka_calls() -> None:
    spy = Spy()
    assert ClientPartitioner(spy)(b"k", [0, 1, 2], [2, 1]) == 2
    assert ClientPartitioner(spy)(None, [0, 1, 2], []) == 2
    assert ClientPartitioner(spy)(None, [0, 1, 2], None) == 2
    assert spy.asked == [(b"k", 3, [2, 1], None, ""), (None, 3, None, None, ""), (None, 3, None, None, "")]


def test_partitions_come_in_any_order_and_may_have_gaps() -> None:
    spy = Spy()
    assert ClientPartitioner(spy)(None, [9, 3, 5], [5, 4, 9]) == 9
    assert spy.asked == [(None, 3, [1, 2], None, "")]


def test_as_kafka_python_calls() -> None:
    spy = Spy()
    client = ClientPartitioner(spy)
    assert client.partition("t", "k", b"key", "v", b"value", Cluster({0, 1}, {1})) == 1
    assert client.partition("t", b"key", Cluster({0, 1}, None)) == 1
    assert spy.asked == [(b"key", 2, [1], b"value", "t"), (b"key", 2, None, None, "t")]
    with pytest.raises(ValueError, match="'t'"):
        client.partition("t", b"key", Cluster(None, None))


def test_kafka_python_takes_it_without_a_warning() -> None:
    producer = KafkaProducer.__new__(KafkaProducer)
    producer.config = {"partitioner": as_client_partitioner("murmur2")}
    producer._metadata = Cluster(set(range(50)), set(range(50)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place = producer._partition("t", None, "key", "value", b"key", b"value")
    assert isinstance(producer.config["partitioner"], Partitioner)
    assert place == DefaultPartitioner().partition("t", "key", b"key", "value", b"value", producer._metadata)


@for_each("key", [b"", b"a", b"key-7", b"\xff" * 33])
def test_keys_are_placed_as_by_the_client(key: bytes) -> None:
    ours, partitions = as_client_partitioner("murmur2"), list(range(17))
    assert ours(key, partitions, partitions) == AioDefault()(key, partitions, partitions)
    assert ours.partition("t", None, key, None, None, Cluster({*partitions}, None)) == AioDefault()(
        key, partitions, partitions
    )


def test_a_new_batch_moves_a_sticky_one_on() -> None:
    for name in ("sticky", "murmur2"):
        client, cluster = as_client_partitioner(name, random.Random(1)), Cluster(set(range(100)), set(range(100)))
        first = client.partition("t", None, None, None, b"v", cluster)
        assert client.partition("t", None, None, None, b"v", cluster) == first
        client.on_new_batch("t", cluster, first)
        assert client.partition("t", None, None, None, b"v", cluster) != first
    as_client_partitioner("random").on_new_batch("t", cluster, 0)
