"""Fetch (key 1): read record batches from partitions, waiting for new ones if there are too few."""

from __future__ import annotations

from kqueue.schema import Chunk, array, field, int8, int16, int32, int64, message, record_data, string, struct, uuid


@struct
class ReplicaState:
    replica_id: int = field(int32, "15+", default=-1)
    replica_epoch: int = field(int64, "15+", default=-1)


@struct
class FetchPartition:
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, "9+", default=-1, ignorable=True)
    fetch_offset: int = field(int64)
    last_fetched_epoch: int = field(int32, "12+", default=-1)
    log_start_offset: int = field(int64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(int32)
    replica_directory_id: bytes = field(uuid, "17+", tag=0, ignorable=True)
    high_watermark: int = field(int64, "18+", tag=1, default=2**63 - 1, ignorable=True)


@struct
class FetchTopic:
    topic: str = field(string, "0-12", ignorable=True)
    topic_id: bytes = field(uuid, "13+", ignorable=True)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@struct
class ForgottenTopic:
    topic: str = field(string, "7-12", ignorable=True)
    topic_id: bytes = field(uuid, "13+", ignorable=True)
    partitions: list[int] = field(array(int32), "7+")


@message(api_key=1, versions="0-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = field(string, "12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = field(int32, "0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, "3+", default=2**31 - 1, ignorable=True)
    isolation_level: int = field(int8, "4+", ignorable=True)
    session_id: int = field(int32, "7+", ignorable=True)
    session_epoch: int = field(int32, "7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), "7+")
    rack_id: str = field(string, "11+", ignorable=True)


@struct
class EpochEndOffset:
    epoch: int = field(int32, "12+", default=-1)
    end_offset: int = field(int64, "12+", default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(int32, "12+", default=-1)
    leader_epoch: int = field(int32, "12+", default=-1)


@struct
class SnapshotId:
    end_offset: int = field(int64, default=-1)
    epoch: int = field(int32, default=-1)


@struct
class AbortedTransaction:
    producer_id: int = field(int64, "4+")
    first_offset: int = field(int64, "4+")


@struct
class PartitionData:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    high_watermark: int = field(int64)
    last_stable_offset: int = field(int64, "4+", default=-1, ignorable=True)
    log_start_offset: int = field(int64, "5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        array(AbortedTransaction), "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = field(int32, "11+", default=-1)
    records: Chunk | None = field(record_data, nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = field(string, "0-12", ignorable=True)
    topic_id: bytes = field(uuid, "13+", ignorable=True)
    partitions: list[PartitionData] = field(array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(int32, "16+")
    host: str = field(string, "16+")
    port: int = field(int32, "16+")
    rack: str | None = field(string, "16+", nullable="16+", default=None)


@message(api_key=1, versions="0-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    error_code: int = field(int16, "7+", ignorable=True)
    session_id: int = field(int32, "7+")
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "16+", tag=0)
