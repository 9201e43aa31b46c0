"""ShareFetch (key 78): acquire records for a share group (KIP-932)."""

from __future__ import annotations

from kqueue.schema import (
    Chunk,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    message,
    record_data,
    shortened,
    string,
    struct,
    uuid,
)


@struct
class AcknowledgementBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    acknowledge_types: list[int] = field(array(int8))


@struct
class FetchPartition:
    partition_index: int = field(int32)
    partition_max_bytes: int = field(int32, "0")
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class FetchTopic:
    topic_id: bytes = field(uuid)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@struct
class ForgottenTopic:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=2**31 - 1)
    max_records: int = field(int32, "1+")
    batch_size: int = field(int32, "1+")
    share_acquire_mode: int = field(int8, "2+", ignorable=True)
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic))


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class AcquiredRecords:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_count: int = field(int16)


@struct
class PartitionData:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    acknowledge_error_code: int = field(int16)
    acknowledge_error_message: str | None = shortened(field(string, nullable="0+", default=None))
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)
    records: Chunk | None = field(record_data, nullable="0")
    acquired_records: list[AcquiredRecords] = field(array(AcquiredRecords))


@struct
class ShareFetchableTopicResponse:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    acquisition_lock_timeout_ms: int = field(int32, "1+")
    responses: list[ShareFetchableTopicResponse] = field(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
