"""DescribeQuorum (key 55): ask for the state of the metadata log's replicas."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, shortened, string, struct, uint16, uuid


@struct
class PartitionDataInRequest:
    partition_index: int = field(int32)


@struct
class TopicDataInRequest:
    topic_name: str = field(string)
    partitions: list[PartitionDataInRequest] = field(array(PartitionDataInRequest))


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[TopicDataInRequest] = field(array(TopicDataInRequest))


@struct
class ReplicaState:
    replica_id: int = field(int32)
    replica_directory_id: bytes = field(uuid, "2+")
    log_end_offset: int = field(int64)
    last_fetch_timestamp: int = field(int64, "1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = field(int64, "1+", default=-1, ignorable=True)


@struct
class PartitionDataInResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, "2+", nullable="2+", ignorable=True))
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)
    high_watermark: int = field(int64)
    current_voters: list[ReplicaState] = field(array(ReplicaState))
    observers: list[ReplicaState] = field(array(ReplicaState))


@struct
class TopicDataInResponse:
    topic_name: str = field(string)
    partitions: list[PartitionDataInResponse] = field(array(PartitionDataInResponse))


@struct
class Listener:
    name: str = field(string, "2+")
    host: str = field(string, "2+")
    port: int = field(uint16, "2+")


@struct
class QuorumNode:
    node_id: int = field(int32, "2+")
    listeners: list[Listener] = field(array(Listener), "2+")


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, "2+", nullable="2+", ignorable=True))
    topics: list[TopicDataInResponse] = field(array(TopicDataInResponse))
    nodes: list[QuorumNode] = field(array(QuorumNode), "2+")
