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
    """Return a new partitioner of this name, for one producer; `rng` is its source of randomness.

    Imports only modules of installed plugins: `name` may come from a topic's setting.

    Raises:
        PluginError: no partitioner has this name.
    """
    return PARTITIONERS.get(name)(rng or random.Random())


def as_client_partitioner(name: str = DEFAULT, rng: random.Random | None = None) -> ClientPartitioner:
    """Return a new `partitioner=` argument for a producer of kafka-python or aiokafka.

    Args:
        name: a built-in, an installed plugin, a partitioner given to a running `kqueue.Broker`, or
            ``module:Class``, which is imported.
        rng: source of randomness.

    Raises:
        PluginError: no partitioner has this name, or the path cannot be imported. A send raises it
            later if the plugin's partitioner raises or returns an invalid partition.

    Thread: safe in kafka-python's threads; at worst two records get the same turn.
    """
    register_with_kafka_python()
    return ClientPartitioner(PARTITIONERS.find(name)(rng or random.Random()))
