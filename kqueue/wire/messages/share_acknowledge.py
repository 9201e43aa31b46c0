"""ShareAcknowledge (key 79): accept, release or reject acquired records (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int8, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class AcknowledgementBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    acknowledge_types: list[int] = field(array(int8))


@struct
class AcknowledgePartition:
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@struct
class AcknowledgeTopic:
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgePartition] = field(array(AcknowledgePartition))


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class PartitionData:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    acquisition_lock_timeout_ms: int = field(int32, "2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
