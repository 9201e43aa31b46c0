"""DescribeTopicPartitions (key 75): ask for topics and partitions page by page (KIP-966)."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, string, struct, uuid


@struct
class TopicRequest:
    name: str = field(string)


@struct
class Cursor:
    topic_name: str = field(string)
    partition_index: int = field(int32)


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(array(TopicRequest))
    response_partition_limit: int = field(int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, default=-1, ignorable=True)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    eligible_leader_replicas: list[int] | None = field(array(int32), nullable="0+", default=None)
    last_known_elr: list[int] | None = field(array(int32), nullable="0+", default=None)
    offline_replicas: list[int] = field(array(int32), ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = field(int16)
    name: str | None = field(string, nullable="0+")
    topic_id: bytes = field(uuid, ignorable=True)
    is_internal: bool = field(boolean, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(int32, default=-(2**31))


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = field(int32, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)
