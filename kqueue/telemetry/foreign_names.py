"""The names of other exporters for what kqueue measures, so that their dashboards carry over.

A scrape asks for them: `/metrics?names=kafka_exporter`. They are rows over the samples that the
names of kqueue have, so each is either the same value under another name and other labels, or a sum
over the last of its labels. What is of a partition is reported by its leader only: these exporters
run once for a cluster, and a sum over all brokers is to be the same.

Source: metrics of danielqsj/kafka_exporter 1.9, and of redpanda-data/kminion 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base.histogram import Histogram
from kqueue.telemetry.samples import Labels, Samples, Value

LED = "kqueue_partition_in_sync_replicas"
"""A metric that has a value for each partition that this broker leads, and for no other."""


class ForeignName(NamedTuple):
    """A gauge of another exporter.

    Attributes:
        source: the metric of kqueue.
        labels: for its labels, in their order. Fewer than it has: over the others it is summed up.
        meaning: one sentence.
        where: values that the first labels of the source must have; `labels` are of those after.
        of_leader: only of partitions that this broker leads.
    """

    name: str
    source: str
    labels: tuple[str, ...]
    meaning: str
    where: Labels = ()
    of_leader: bool = False

    def values(self, samples: Samples) -> Mapping[Labels, Value]:
        """Return the values by labels."""
        source_values = samples.values.get(self.source, {})
        led = samples.values.get(LED, {})
        skipped = len(self.where)
        end = skipped + len(self.labels)
        values: dict[Labels, Value] = {}
        for labels, value in source_values.items():
            if labels[:skipped] != self.where or (self.of_leader and labels not in led):
                continue
            assert not isinstance(value, Histogram)
            kept = labels[skipped:end]
            before = values.get(kept, 0)
            assert not isinstance(before, Histogram)
            values[kept] = before + value
        return values


TOPIC = ("topic", "partition")
GROUP = ("consumergroup", *TOPIC)
KAFKA_EXPORTER = (
    ForeignName("kafka_brokers", "kqueue_cluster_brokers", (), "Active brokers of the cluster.", ("active",)),
    ForeignName("kafka_topic_partitions", "kqueue_topic_partitions", TOPIC[:1], "Partitions of a topic."),
    ForeignName(
        "kafka_topic_partition_current_offset",
        "kqueue_partition_high_watermark", TOPIC, "Offset after the last readable record.", of_leader=True,
    ),
    ForeignName(
        "kafka_topic_partition_oldest_offset",
        "kqueue_partition_start_offset", TOPIC, "First offset that can be read.", of_leader=True,
    ),
    ForeignName(
        "kafka_topic_partition_leader",
        "kqueue_partition_leader", TOPIC, "Node id of the leader of a partition.", of_leader=True,
    ),
    ForeignName("kafka_topic_partition_replicas", "kqueue_partition_replicas", TOPIC, "Replicas of a partition."),
    ForeignName("kafka_topic_partition_in_sync_replica", LED, TOPIC, "Replicas of a partition that are in sync."),
    ForeignName(
        "kafka_topic_partition_under_replicated_partition",
        "kqueue_partition_under_replicated", TOPIC, "1: fewer replicas of a partition are in sync than it has.",
    ),
    ForeignName("kafka_consumergroup_members", "kqueue_group_members", GROUP[:1], "Members of a group."),
    ForeignName(
        "kafka_consumergroup_current_offset", "kqueue_group_committed_offset", GROUP, "Committed offset of a group.",
    ),
    ForeignName(
        "kafka_consumergroup_current_offset_sum",
        "kqueue_group_committed_offset", GROUP[:2], "Sum of a group's committed offsets in a topic.",
    ),
    ForeignName("kafka_consumergroup_lag", "kqueue_group_lag", GROUP, "Records that a group has not read."),
    ForeignName(
        "kafka_consumergroup_lag_sum", "kqueue_group_lag", GROUP[:2], "Records of a topic that a group has not read.",
    ),
)  # fmt: skip
KMINION_TOPIC = ("topic_name", "partition_id")
KMINION_GROUP = ("group_id", *KMINION_TOPIC)
KMINION = (
    ForeignName(
        "kminion_kafka_topic_log_dir_size_total_bytes",
        "kqueue_topic_size_bytes", KMINION_TOPIC[:1], "Bytes of a topic's logs on this broker.",
    ),
    ForeignName(
        "kminion_kafka_topic_partition_low_water_mark",
        "kqueue_partition_start_offset", KMINION_TOPIC, "First offset that can be read.", of_leader=True,
    ),
    ForeignName(
        "kminion_kafka_topic_low_water_mark_sum",
        "kqueue_partition_start_offset", KMINION_TOPIC[:1], "Sum of the first offsets of a topic.", of_leader=True,
    ),
    ForeignName(
        "kminion_kafka_topic_partition_high_water_mark",
        "kqueue_partition_high_watermark", KMINION_TOPIC, "Offset after the last readable record.", of_leader=True,
    ),
    ForeignName(
        "kminion_kafka_topic_high_water_mark_sum",
        "kqueue_partition_high_watermark", KMINION_TOPIC[:1], "Sum of the ends of a topic.", of_leader=True,
    ),
    ForeignName(
        "kminion_kafka_consumer_group_members", "kqueue_group_members", KMINION_GROUP[:1], "Members of a group.",
    ),
    ForeignName(
        "kminion_kafka_consumer_group_topic_offset_sum",
        "kqueue_group_committed_offset", KMINION_GROUP[:2], "Sum of a group's committed offsets in a topic.",
    ),
    ForeignName(
        "kminion_kafka_consumer_group_topic_partition_lag",
        "kqueue_group_lag", KMINION_GROUP, "Records that a group has not read.",
    ),
    ForeignName(
        "kminion_kafka_consumer_group_topic_lag",
        "kqueue_group_lag", KMINION_GROUP[:2], "Records of a topic that a group has not read.",
    ),
)  # fmt: skip
FOREIGN_NAMES: Mapping[str, tuple[ForeignName, ...]] = {"kafka_exporter": KAFKA_EXPORTER, "kminion": KMINION}
"""By what `/metrics?names=` takes."""
