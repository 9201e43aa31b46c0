"""The table of all metrics of a broker."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """How a value moves: up only, up and down, or counted by buckets."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric. `name`: without `_total`, which counters get. `labels`: in their order. `kafka`:
    the metric of Kafka's that says the same, "" if none does.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    kafka: str = ""


COUNTER, GAUGE, HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
NETWORK = "kafka.network:type=RequestMetrics"
TOPIC = "kafka.server:type=BrokerTopicMetrics"
REPLICAS = "kafka.server:type=ReplicaManager"
PARTITION = ("topic", "partition")

METRICS = (
    Metric("kqueue_broker_info", GAUGE, ("version", "node_id", "cluster_id"), "Always 1."),
    Metric("kqueue_ready", GAUGE, (), "1 once all logs are recovered and all groups are loaded, else 0."),
    Metric("kqueue_logs_to_recover", GAUGE, (), "Logs that are not recovered yet after an unclean stop."),
    Metric("kqueue_loop_delay_seconds", HISTOGRAM, (), "How late the event loop runs a timer of each second."),
    Metric("kqueue_jobs", GAUGE, (), "Jobs of disk and processor that run or wait for a thread."),
    Metric("kqueue_requests", COUNTER, ("api",), "Requests that began.", f"{NETWORK},name=RequestsPerSec"),
    Metric(
        "kqueue_request_errors",
        COUNTER,
        ("api", "error"),
        "Error codes that were answered; each partition of a request counts.",
        f"{NETWORK},name=ErrorsPerSec",
    ),
    Metric(
        "kqueue_request_handling_seconds",
        HISTOGRAM,
        ("api",),
        "Time on the broker's thread until a request is answered, or waits; of Produce and Fetch each 16th.",
        f"{NETWORK},name=LocalTimeMs",
    ),
    Metric(
        "kqueue_request_waiting_seconds",
        HISTOGRAM,
        ("api",),
        "Time from the start of a request until its response, of those that waited for a flush, for records or others.",
        f"{NETWORK},name=RemoteTimeMs",
    ),
    Metric("kqueue_connections", GAUGE, ("listener",), "Open connections.", "kafka.server:type=socket-server-metrics"),
    Metric(
        "kqueue_waiting_requests",
        GAUGE,
        (),
        "Requests of all connections whose response is not complete.",
        "kafka.network:type=RequestChannel,name=RequestQueueSize",
    ),
    Metric("kqueue_topics", GAUGE, (), "Topics, internal ones too.", "kafka.controller:name=GlobalTopicCount"),
    Metric(
        "kqueue_partitions",
        GAUGE,
        (),
        "Partitions that this broker has a replica of.",
        f"{REPLICAS},name=PartitionCount",
    ),
    Metric("kqueue_leaders", GAUGE, (), "Partitions that this broker leads.", f"{REPLICAS},name=LeaderCount"),
    Metric(
        "kqueue_offline_partitions",
        GAUGE,
        (),
        "Partitions of this broker that can't be used: their log failed, or they have no leader.",
        "kafka.controller:name=OfflinePartitionsCount",
    ),
    Metric(
        "kqueue_under_replicated_partitions",
        GAUGE,
        (),
        "Partitions that this broker leads and some replica lags behind.",
        f"{REPLICAS},name=UnderReplicatedPartitions",
    ),
    Metric(
        "kqueue_under_min_isr_partitions",
        GAUGE,
        (),
        "Partitions that this broker leads and whose acks=all is refused.",
        f"{REPLICAS},name=UnderMinIsrPartitionCount",
    ),
    Metric(
        "kqueue_topic_appended_bytes",
        COUNTER,
        ("topic",),
        "Bytes of record batches that were appended to partitions that this broker leads, since its start.",
        f"{TOPIC},name=BytesInPerSec",
    ),
    Metric(
        "kqueue_topic_sent_bytes",
        COUNTER,
        ("topic",),
        "Bytes of record batches that consumers got.",
        f"{TOPIC},name=BytesOutPerSec",
    ),
    Metric(
        "kqueue_topic_size_bytes",
        GAUGE,
        ("topic",),
        "Bytes of the logs on this broker.",
        "kafka.log:type=Log,name=Size",
    ),
    Metric(
        "kqueue_partition_start_offset",
        GAUGE,
        PARTITION,
        "First offset that can be read.",
        "kafka.log:type=Log,name=LogStartOffset",
    ),
    Metric(
        "kqueue_partition_end_offset",
        GAUGE,
        PARTITION,
        "Offset of the next record; its rate is that of records.",
        "kafka.log:type=Log,name=LogEndOffset",
    ),
    Metric("kqueue_partition_size_bytes", GAUGE, PARTITION, "Bytes of the log.", "kafka.log:type=Log,name=Size"),
    Metric(
        "kqueue_partition_segments", GAUGE, PARTITION, "Segments of the log.", "kafka.log:type=Log,name=NumLogSegments"
    ),
    Metric(
        "kqueue_partition_in_sync_replicas",
        GAUGE,
        PARTITION,
        "Replicas in sync, of partitions that this broker leads.",
        "kafka.cluster:type=Partition,name=InSyncReplicasCount",
    ),
    Metric(
        "kqueue_groups",
        GAUGE,
        ("type", "state"),
        "Groups that this broker coordinates.",
        "kafka.server:type=group-coordinator-metrics,name=group-count",
    ),
    Metric(
        "kqueue_group_lag",
        GAUGE,
        ("group", *PARTITION),
        "Records from a group's committed offset to the end, of partitions with a replica here.",
        "kafka_exporter: kafka_consumergroup_lag",
    ),
    Metric(
        "kqueue_group_committed_offset",
        GAUGE,
        ("group", *PARTITION),
        "Committed offset: of the next record to read.",
        "kafka_exporter: kafka_consumergroup_current_offset",
    ),
    Metric(
        "kqueue_transactions",
        GAUGE,
        ("state",),
        "Transactional ids that this broker coordinates, by the state of their transaction.",
        "kafka.server:type=transaction-coordinator-metrics",
    ),
    Metric("kqueue_folder_free_bytes", GAUGE, ("folder",), "Free bytes of the disk of a data folder."),
    Metric("kqueue_folder_total_bytes", GAUGE, ("folder",), "Size of the disk of a data folder."),
    Metric(
        "kqueue_offline_folders",
        GAUGE,
        (),
        "Data folders that can't be used.",
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    ),
)
BY_NAME = {metric.name: metric for metric in METRICS}
