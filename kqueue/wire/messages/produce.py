"""Produce (key 0): append record batches to partitions."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, record_data, shortened, string, struct, uuid


@struct
class PartitionProduceData:
    index: int = field(int32)
    records: memoryview | None = field(record_data, nullable="0+")


@struct
class TopicProduceData:
    name: str = field(string, "0-12", ignorable=True)
    topic_id: bytes = field(uuid, "13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field(array(PartitionProduceData))


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = field(string, "3+", nullable="3+", default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = field(int32, "8+")
    batch_index_error_message: str | None = shortened(field(string, "8+", nullable="8+", default=None))


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(int32, "10+", default=-1)
    leader_epoch: int = field(int32, "10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int = field(int32)
    error_code: int = field(int16)
    base_offset: int = field(int64)
    log_append_time_ms: int = field(int64, "2+", default=-1, ignorable=True)
    log_start_offset: int = field(int64, "5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(array(BatchIndexAndErrorMessage), "8+", ignorable=True)
    error_message: str | None = shortened(field(string, "8+", nullable="8+", default=None, ignorable=True))
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = field(string, "0-12", ignorable=True)
    topic_id: bytes = field(uuid, "13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(array(PartitionProduceResponse))


@struct
class NodeEndpoint:
    node_id: int = field(int32, "10+")
    host: str = field(string, "10+")
    port: int = field(int32, "10+")
    rack: str | None = field(string, "10+", nullable="10+", default=None)


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), "10+", tag=0)
