"""Partitioners by name, and their adapter for stock clients."""

from __future__ import annotations

import random

from kqueue.base.registry import Registry
from kqueue.records.partitioners.client_partitioner import ClientPartitioner, register_with_kafka_python
from kqueue.records.partitioners.contract import Partitioner, PartitionerFactory
from kqueue.records.partitioners.crc32 import Crc32ConsistentPartitioner, Crc32Partitioner
from kqueue.records.partitioners.guarded_partitioner import GuardedPartitionerFactory
from kqueue.records.partitioners.murmur2 import Murmur2Partitioner
from kqueue.records.partitioners.random import RandomPartitioner
from kqueue.records.partitioners.round_robin import RoundRobinPartitioner
from kqueue.records.partitioners.sticky import StickyPartitioner

__all__ = [
    "DEFAULT",
    "PARTITIONERS",
    "ClientPartitioner",
    "Partitioner",
    "PartitionerFactory",
    "as_client_partitioner",
    "make_partitioner",
]

DEFAULT = "murmur2"
PARTITIONERS: Registry[PartitionerFactory] = Registry(
    "kqueue.partitioners", "partitioner", guard=GuardedPartitionerFactory
)
PARTITIONERS.add("murmur2", Murmur2Partitioner)
PARTITIONERS.add("sticky", StickyPartitioner)
PARTITIONERS.add("round_robin", RoundRobinPartitioner)
PARTITIONERS.add("random", RandomPartitioner)
PARTITIONERS.add("crc32", Crc32Partitioner)
PARTITIONERS.add("crc32_consistent", Crc32ConsistentPartitioner)


def make_partitioner(name: str = DEFAULT, rng: random.Random | None = None) -> Partitioner:
    """A new partitioner of this name, for one producer; `rng` is what it draws from.

    Imports nothing but an installed plugin's module: `name` may come from a topic's setting. Raises
    PluginError: nobody has the name.
    """
    return PARTITIONERS.get(name)(rng or random.Random())


def as_client_partitioner(name: str = DEFAULT, rng: random.Random | None = None) -> ClientPartitioner:
    """What kafka-python's and aiokafka's producers take as `partitioner=`; a new one for each
    producer.

    Args: name: of a built-in or an installed plugin, or of one that a running `kqueue.Broker` was
    given; or ``module:Class``, which is imported. rng: what it draws from. Raises PluginError:
    nobody has the name, or the path leads nowhere; later, to who sends a record: a plugin's
    partitioner raised, or returned what is no partition. Safe in kafka-python's many threads: at
    worst two records take the same turn.
    """
    register_with_kafka_python()
    return ClientPartitioner(PARTITIONERS.find(name)(rng or random.Random()))
