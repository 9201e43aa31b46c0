"""Metadata caches for the tests of calls."""

from __future__ import annotations

from kqueue.client import ClusterMetadata, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.client.metadata import MetadataCache

T0 = TopicPartition("t", 0)
ID = b"1" * 16


def cache_of(*ids: bytes) -> MetadataCache:
    cache = MetadataCache()
    topics = {
        f"t{number or ''}": TopicMetadata(f"t{number or ''}", id, {0: PartitionMetadata(0)})
        for number, id in enumerate(ids)
    }
    cache.update(ClusterMetadata({}, topics), None)
    return cache
