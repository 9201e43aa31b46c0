"""ListOffsets (key 2): find the offset for a timestamp, or the first and last offset."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition:
    partition_index: int = field(int32)
    current_leader_epoch: int = field(int32, "4+", default=-1, ignorable=True)
    timestamp: int = field(int64)
    max_num_offsets: int = field(int32, "0", default=1)


@struct
class ListOffsetsTopic:
    name: str = field(string)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = field(int32)
    isolation_level: int = field(int8, "2+")
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, "10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    old_style_offsets: list[int] = field(array(int64), "0")
    timestamp: int = field(int64, "1+", default=-1)
    offset: int = field(int64, "1+", default=-1)
    leader_epoch: int = field(int32, "4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field(string)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = field(int32, "2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))
