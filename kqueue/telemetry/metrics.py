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
    Metric(
        "kqueue_request_queue_seconds",
        HISTOGRAM,
        (),
        "Time that connections with requests queued for their turn, of those that did not begin at once.",
        f"{NETWORK},name=RequestQueueTimeMs",
    ),
    Metric(
        "kqueue_response_blocked_seconds",
        HISTOGRAM,
        (),
        "Time that responses waited for room in their socket, of those that were not sent at once.",
        f"{NETWORK},name=ResponseSendTimeMs",
    ),
    Metric(
        "kqueue_connections",
        GAUGE,
        ("listener", "principal"),
        "Open connections, by the kind of their principal: anonymous, user or token.",
        "kafka.server:type=socket-server-metrics,name=connection-count",
    ),
    Metric(
        "kqueue_authentication_failures",
        COUNTER,
        ("listener", "mechanism"),
        "Clients whose authentication failed; the mechanism is TLS where their certificate was refused.",
        "kafka.server:type=socket-server-metrics,name=failed-authentication-total",
    ),
    Metric(
        "kqueue_throttled_seconds",
        COUNTER,
        ("quota",),
        "For how long clients were held back by a quota; where several hold one back, each counts.",
        "kafka.server:type=Produce,user=*,name=throttle-time",
    ),
    Metric(
        "kqueue_delayed_requests",
        GAUGE,
        ("api",),
        "Requests in the purgatory: they wait for a flush, for replicas, for records, or for members.",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
    ),
    Metric(
        "kqueue_waiting_requests",
        GAUGE,
        (),
        "Requests of all connections whose response is not complete.",
        "kafka.network:type=RequestChannel,name=RequestQueueSize",
    ),
    Metric(
        "kqueue_flush_seconds",
        HISTOGRAM,
        (),
        "Time of a flush of one log, from its start until the broker knows its end.",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    Metric(
        "kqueue_flushed_records",
        COUNTER,
        (),
        "Records that flushes made durable; by kqueue_flush_seconds_count it is how many share one.",
    ),
    Metric("kqueue_flush_failures", COUNTER, (), "Flushes that failed."),
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
        "kqueue_cluster_brokers",
        GAUGE,
        ("state",),
        "Brokers of the cluster that are registered: active or fenced.",
        "kafka.controller:type=KafkaController,name=ActiveBrokerCount",
    ),
    Metric(
        "kqueue_active_controller",
        GAUGE,
        (),
        "1 at the broker that is the controller, else 0; their sum over a cluster is 1.",
        "kafka.controller:type=KafkaController,name=ActiveControllerCount",
    ),
    Metric("kqueue_unfenced", GAUGE, (), "1 while the controller lets this broker lead; only members of a cluster."),
    Metric(
        "kqueue_store_session",
        GAUGE,
        (),
        "1 while the metadata store takes this broker's signs of life; only members of a cluster.",
        "kafka.server:type=SessionExpireListener",
    ),
    Metric(
        "kqueue_store_sessions",
        COUNTER,
        (),
        "Sessions with the metadata store that began: each after the first follows a session that was lost.",
        "kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
    ),
    Metric(
        "kqueue_isr_changes",
        COUNTER,
        ("change",),
        "Changes of in-sync sets of partitions that this broker leads: shrink or expand.",
        f"{REPLICAS},name=IsrShrinksPerSec",
    ),
    Metric(
        "kqueue_replication_lag",
        GAUGE,
        ("follower",),
        "Records that a follower lacks of all partitions that this broker leads.",
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
    ),
    Metric(
        "kqueue_replication_lag_max",
        GAUGE,
        ("follower",),
        "Records that it lacks of the partition of which it lacks most.",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag",
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
        "kqueue_topic_partitions",
        GAUGE,
        ("topic",),
        "Partitions of a topic, reported by the broker that leads the first of them.",
        "kafka_exporter: kafka_topic_partitions",
    ),
    Metric(
        "kqueue_partition_start_offset",
        GAUGE,
        PARTITION,
        "First offset that can be read.",
        "kafka.log:type=Log,name=LogStartOffset",
    ),
    Metric(
        "kqueue_partition_high_watermark",
        GAUGE,
        PARTITION,
        "Offset after the last record that consumers may read.",
        "kafka_exporter: kafka_topic_partition_current_offset",
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
    Metric("kqueue_partition_leader", GAUGE, PARTITION, "Node id of the leader; -1: there is none."),
    Metric(
        "kqueue_partition_replicas",
        GAUGE,
        PARTITION,
        "Replicas, of partitions that this broker leads.",
        "kafka.cluster:type=Partition,name=ReplicasCount",
    ),
    Metric(
        "kqueue_partition_in_sync_replicas",
        GAUGE,
        PARTITION,
        "Replicas in sync, of partitions that this broker leads.",
        "kafka.cluster:type=Partition,name=InSyncReplicasCount",
    ),
    Metric(
        "kqueue_partition_under_replicated",
        GAUGE,
        PARTITION,
        "1 while fewer replicas are in sync than there are, of partitions that this broker leads.",
        "kafka.cluster:type=Partition,name=UnderReplicated",
    ),
    Metric(
        "kqueue_groups",
        GAUGE,
        ("type", "state"),
        "Groups that this broker coordinates.",
        "kafka.server:type=group-coordinator-metrics,name=group-count",
    ),
    Metric(
        "kqueue_group_members", GAUGE, ("group",), "Members of a group.", "kafka_exporter: kafka_consumergroup_members"
    ),
    Metric(
        "kqueue_group_lag",
        GAUGE,
        ("group", *PARTITION),
        "Records from a group's committed offset to the end, of partitions with a replica here.",
        "kafka_exporter: kafka_consumergroup_lag",
    ),
    Metric(
        "kqueue_group_lag_age_seconds",
        GAUGE,
        ("group", *PARTITION),
        "For how long the next record to read has been there, at least, as scrapes have seen it; 0: there is none.",
        "kafka_lag_exporter: kafka_consumergroup_group_lag_seconds",
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
    Metric(
        "kqueue_transactions_ended",
        COUNTER,
        ("result",),
        "Transactions that ended: commit or abort, as their producer decided; fence: by a timeout or another producer.",
        "kafka.server:type=transaction-coordinator-metrics",
    ),
    Metric("kqueue_transaction_age_seconds_max", GAUGE, (), "Age of the oldest open transaction; 0: none is open."),
    Metric(
        "kqueue_share_records_in_flight",
        GAUGE,
        ("group",),
        "Records of a share group from the first that it is not done with to the last that was acquired.",
        "kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount",
    ),
    Metric(
        "kqueue_share_delivered_records",
        COUNTER,
        ("group",),
        "Records that members of a share group acquired; each delivery counts.",
    ),
    Metric(
        "kqueue_share_redelivered_records",
        COUNTER,
        ("group",),
        "Those of them that had been delivered before.",
    ),
    Metric(
        "kqueue_share_given_up_records",
        COUNTER,
        ("group", "reason"),
        "Records that a share group gave up: rejected by a member, or beyond the delivery count limit.",
    ),
    Metric(
        "kqueue_share_dead_lettered_records",
        COUNTER,
        ("group",),
        "Those of them that were copied to the group's dead-letter topic.",
    ),
    Metric(
        "kqueue_cleaner_runs",
        COUNTER,
        ("result",),
        "Compactions of one log that ended: cleaned or failed.",
        "kafka.log:type=LogCleanerManager",
    ),
    Metric("kqueue_cleaner_read_bytes", COUNTER, (), "Bytes that compactions read, in both passes."),
    Metric("kqueue_cleaner_written_bytes", COUNTER, (), "Bytes that compactions wrote."),
    Metric(
        "kqueue_cleaner_seconds",
        COUNTER,
        (),
        "Time that compactions took.",
        "kafka.log:type=LogCleaner,name=max-clean-time-secs",
    ),
    Metric(
        "kqueue_cleaner_last_run_timestamp_seconds",
        GAUGE,
        (),
        "Time of the end of the last compaction, since 1970; none: there was none since the start.",
        "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
    ),
    Metric(
        "kqueue_cleaner_dirty_ratio_max",
        GAUGE,
        (),
        "The largest share of a log that is not compacted yet, of all that can be, at the last look.",
        "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
    ),
    Metric(
        "kqueue_cleaner_excluded_logs",
        GAUGE,
        (),
        "Logs that are not compacted because that failed.",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
    ),
    Metric("kqueue_folder_free_bytes", GAUGE, ("folder",), "Free bytes of the disk of a data folder."),
    Metric("kqueue_folder_reserve_bytes", GAUGE, ("folder",), "Bytes that producers leave free on it for the broker."),
    Metric("kqueue_folder_total_bytes", GAUGE, ("folder",), "Size of the disk of a data folder."),
    Metric(
        "kqueue_offline_folders",
        GAUGE,
        (),
        "Data folders that can't be used.",
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    ),
    Metric(
        "kqueue_tier_copied_bytes",
        COUNTER,
        (),
        "Bytes of segments that were copied into the tier.",
        f"{TOPIC},name=RemoteCopyBytesPerSec",
    ),
    Metric(
        "kqueue_tier_copied_segments",
        COUNTER,
        (),
        "Segments that were copied into the tier.",
        f"{TOPIC},name=RemoteCopyRequestsPerSec",
    ),
    Metric(
        "kqueue_tier_copy_errors",
        COUNTER,
        (),
        "Copies into the tier that failed, and are tried again.",
        f"{TOPIC},name=RemoteCopyErrorsPerSec",
    ),
    Metric(
        "kqueue_tier_copy_lag_bytes",
        GAUGE,
        ("topic",),
        "Bytes of sealed segments that the tier lacks, of partitions that the broker leads.",
        f"{TOPIC},name=RemoteCopyLagBytes",
    ),
    Metric(
        "kqueue_tier_copy_lag_segments",
        GAUGE,
        ("topic",),
        "Sealed segments that the tier lacks, of partitions that the broker leads.",
        f"{TOPIC},name=RemoteCopyLagSegments",
    ),
    Metric(
        "kqueue_tier_size_bytes",
        GAUGE,
        ("topic",),
        "Bytes of segments in the tier, of partitions that the broker leads.",
        f"{TOPIC},name=RemoteLogSizeBytes",
    ),
    Metric(
        "kqueue_tier_reads", COUNTER, (), "Reads of the tier for clients.", f"{TOPIC},name=RemoteFetchRequestsPerSec"
    ),
    Metric(
        "kqueue_tier_read_bytes",
        COUNTER,
        (),
        "Bytes of records that were read from the tier for clients.",
        f"{TOPIC},name=RemoteFetchBytesPerSec",
    ),
    Metric(
        "kqueue_tier_read_errors",
        COUNTER,
        (),
        "Reads of the tier that failed.",
        f"{TOPIC},name=RemoteFetchErrorsPerSec",
    ),
    Metric(
        "kqueue_tier_reads_waiting",
        GAUGE,
        (),
        "Reads of the tier that wait for a thread.",
        "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool,name=RemoteLogReaderTaskQueueSize",
    ),
    Metric(
        "kqueue_tier_fetched_bytes",
        COUNTER,
        (),
        "Bytes that were fetched from the object store for reads, also ahead of them.",
    ),
    Metric(
        "kqueue_tier_cache_lookups",
        COUNTER,
        ("result",),
        "Chunks of segments that reads found in the cache (hit), or fetched (miss).",
    ),
    Metric(
        "kqueue_tier_deleted_segments",
        COUNTER,
        (),
        "Segments that were deleted from the tier.",
        f"{TOPIC},name=RemoteDeleteRequestsPerSec",
    ),
    Metric(
        "kqueue_tier_delete_errors",
        COUNTER,
        (),
        "Deletions from the tier that failed, and are tried again.",
        f"{TOPIC},name=RemoteDeleteErrorsPerSec",
    ),
    Metric(
        "kqueue_tier_refused",
        GAUGE,
        (),
        "1 while nothing is copied because the tier is not reached yet, or is another cluster's; else 0.",
    ),
)
BY_NAME = {metric.name: metric for metric in METRICS}
