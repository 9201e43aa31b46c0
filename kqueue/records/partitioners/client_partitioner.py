"""Adapter of a partitioner for stock clients."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Collection
from typing import Any

from kqueue.records.partitioners.contract import Partitioner


class ClientPartitioner:
    """Wraps a partitioner; called in each of the ways that kafka-python and aiokafka have had.

    aiokafka and kafka-python 2 say neither topic nor value: a producer of several topics shares the
    turns of a round robin over them, and values count as `sticky.UNKNOWN_VALUE_BYTES`.
    """

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner

    def __call__(self, key: bytes | None, all_partitions: Collection[int], available: Collection[int] | None) -> int:
        """aiokafka, kafka-python 2: the partition, one of `all_partitions`."""
        return self._choose(key, all_partitions, available, None, "")

    def partition(self, topic: str, *args: Any) -> int:
        """kafka-python 3: `(topic, key, serialized_key, value, serialized_value, cluster)`, or
        `(topic, serialized_key, cluster)`.
        """
        *before, cluster = args
        key, value = (before[1], before[3]) if len(before) == 4 else (before[0], None)
        all_partitions = cluster.partitions_for_topic(topic)
        if not all_partitions:
            raise ValueError(f"topic {topic!r} has no partitions in the client's metadata")
        return self._choose(key, all_partitions, cluster.available_partitions_for_topic(topic), value, topic)

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """kafka-python 3: a record without a key is about to begin a new batch, and will be asked
        for again.
        """
        new_batch = getattr(self.partitioner, "new_batch", None)
        if new_batch is not None:
            new_batch(topic)

    def _choose(
        self,
        key: bytes | None,
        all_partitions: Collection[int],
        available: Collection[int] | None,
        value: bytes | None,
        topic: str,
    ) -> int:
        ids = sorted(all_partitions)
        place = {id: index for index, id in enumerate(ids)}
        open_places = [place[id] for id in available or () if id in place]
        return ids[self.partitioner.partition(key, len(ids), available=open_places or None, value=value, topic=topic)]


def register_with_kafka_python() -> None:
    """Make kafka-python 3, where it is installed, take a `ClientPartitioner` for a partitioner; it
    warns of strangers.
    """
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("kafka.partitioner").Partitioner.register(ClientPartitioner)
