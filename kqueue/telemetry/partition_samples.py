"""Samples of topics and partitions."""

from __future__ import annotations

from collections import Counter

from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.replicas.partition import Partition
from kqueue.telemetry.samples import OTHER, NameBound, Samples, Sources


def read_partitions(samples: Samples, sources: Sources, bound: NameBound) -> SlicedWork[None]:
    """Read all partitions; yields after each."""
    topics = sources.broker.topics
    totals = Counter(dict.fromkeys(("partitions", "leaders", "offline", "under_replicated", "under_min_isr"), 0))
    lags = FollowerLags()
    for label, topic in bound.named("topics", sorted(topics, key=lambda topic: topic.name)):
        for partition in topic.partitions:
            _count_replica(partition, totals)
            samples.count("kqueue_topic_appended_bytes", partition.appended_bytes, label or OTHER)
            if label is not None and partition.has_replica:
                _read_replicas(samples, label, partition, len(topic.partitions))
            if partition.is_open and not partition.deleted:
                _read_log(samples, label or OTHER, partition, alone=label is not None)
                lags.count(partition)
            yield None
    samples.add("kqueue_topics", len(topics))
    for name, count in totals.items():
        samples.add(f"kqueue_{name}{'' if name in ('partitions', 'leaders') else '_partitions'}", count)
    lags.add_to(samples)
    _read_sent_bytes(samples, sources)


class FollowerLags:
    """How many records the followers lack of the partitions that this broker leads."""

    def __init__(self) -> None:
        self._sums: Counter[int] = Counter()
        self._largest: Counter[int] = Counter()

    def count(self, partition: Partition) -> None:
        """Count one partition with an open log. One that was never fetched lacks the whole log."""
        leadership = partition.replica.leadership
        if leadership is None:
            return
        log = partition.log
        for node, follower in leadership.followers.items():
            lag = max(log.end_offset - max(follower.leo, log.start_offset), 0)
            self._sums[node] += lag
            self._largest[node] = max(self._largest[node], lag)

    def add_to(self, samples: Samples) -> None:
        """Add the lag of each follower."""
        for node, lag in self._sums.items():
            samples.add("kqueue_replication_lag", lag, str(node))
            samples.add("kqueue_replication_lag_max", self._largest[node], str(node))


def _count_replica(partition: Partition, totals: Counter[str]) -> None:
    if not partition.has_replica:
        return
    totals["partitions"] += 1
    if partition.is_offline or partition.leader < 0:
        totals["offline"] += 1
    if partition.is_leader:
        totals["leaders"] += 1
        totals["under_replicated"] += len(partition.isr) < len(partition.replicas)
        try:
            partition.check_in_sync()
        except KqueueError:
            totals["under_min_isr"] += 1


def _read_replicas(samples: Samples, label: str, partition: Partition, partitions: int) -> None:
    """Args: partitions: of the topic."""
    index = str(partition.index)
    samples.add("kqueue_partition_leader", partition.leader, label, index)
    if partition.is_leader:
        samples.add("kqueue_partition_replicas", len(partition.replicas), label, index)
        samples.add("kqueue_partition_in_sync_replicas", len(partition.isr), label, index)
        is_under_replicated = len(partition.isr) < len(partition.replicas)
        samples.add("kqueue_partition_under_replicated", int(is_under_replicated), label, index)
        if partition.index == 0:
            samples.add("kqueue_topic_partitions", partitions, label)


def _read_log(samples: Samples, label: str, partition: Partition, *, alone: bool) -> None:
    """Read an open log. Args: alone: its topic has values of its own."""
    log, index = partition.log, str(partition.index)
    size = log.segments.size
    samples.count("kqueue_topic_size_bytes", size, label)
    if not alone:
        return
    samples.add("kqueue_partition_start_offset", log.start_offset, label, index)
    samples.add("kqueue_partition_high_watermark", partition.high_watermark, label, index)
    samples.add("kqueue_partition_end_offset", log.end_offset, label, index)
    samples.add("kqueue_partition_size_bytes", size, label, index)
    samples.add("kqueue_partition_segments", len(log.segments), label, index)


def _read_sent_bytes(samples: Samples, sources: Sources) -> None:
    topics, sent_bytes = sources.broker.topics, sources.meter.sent_bytes
    for key, size in list(sent_bytes.items()):
        topic = topics.find_by_id(key) if isinstance(key, bytes) else topics.find(key)
        if topic is None:
            del sent_bytes[key]  # deleted
            continue
        is_named = (topic.name,) in samples.values["kqueue_topic_appended_bytes"]
        samples.count("kqueue_topic_sent_bytes", size, topic.name if is_named else OTHER)
