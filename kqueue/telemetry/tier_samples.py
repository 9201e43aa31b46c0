"""Samples of tiered storage."""

from __future__ import annotations

from collections import Counter

from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.tier.copies import uncopied
from kqueue.telemetry.samples import OTHER, NameBound, Samples, Sources


def read_tier(samples: Samples, sources: Sources, bound: NameBound) -> SlicedWork[None]:
    """Read what is copied, read and deleted; nothing where there is no tier. Yields after each
    partition.
    """
    tier = sources.broker.tier
    if tier is None:
        return
    leaders, reads, chunks = tier.leaders, tier.reads, tier.host.reader.chunks
    samples.add("kqueue_tier_copied_bytes", leaders.copied_bytes)
    samples.add("kqueue_tier_copied_segments", leaders.copied_segments)
    samples.add("kqueue_tier_copy_errors", leaders.copy_errors)
    samples.add("kqueue_tier_deleted_segments", leaders.deleted_segments)
    samples.add("kqueue_tier_delete_errors", leaders.delete_errors)
    samples.add("kqueue_tier_reads", reads.requests)
    samples.add("kqueue_tier_read_bytes", reads.read_bytes)
    samples.add("kqueue_tier_read_errors", reads.errors)
    samples.add("kqueue_tier_reads_waiting", reads.pool.waiting)
    samples.add("kqueue_tier_fetched_bytes", chunks.fetched_bytes)
    samples.add("kqueue_tier_cache_lookups", chunks.hits, "hit")
    samples.add("kqueue_tier_cache_lookups", chunks.misses, "miss")
    samples.add("kqueue_tier_refused", int(tier.refusal is not None))
    lag_bytes: Counter[str] = Counter()
    lag_segments: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for label, topic in bound.named("topics", sorted(sources.broker.topics, key=lambda topic: topic.name)):
        if not topic.log_config.tiered:
            continue
        for partition in topic.partitions:
            if partition.is_leader and partition.is_open and not partition.deleted:
                count, size = uncopied(partition.log)
                lag_segments[label or OTHER] += count
                lag_bytes[label or OTHER] += size
                sizes[label or OTHER] += tier.tiered_bytes(partition)
            yield None
    for name, values in (("copy_lag_bytes", lag_bytes), ("copy_lag_segments", lag_segments), ("size_bytes", sizes)):
        for label, value in values.items():
            samples.add(f"kqueue_tier_{name}", value, label)
