"""DescribeShareGroupOffsets (key 90): ask for the positions of share groups (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = field(string)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        array(DescribeShareGroupOffsetsRequestTopic), nullable="0+"
    )


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(array(DescribeShareGroupOffsetsRequestGroup))


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = field(int32)
    start_offset: int = field(int64)
    leader_epoch: int = field(int32)
    lag: int = field(int64, "1+", default=-1, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = field(string)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = field(int32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(array(DescribeShareGroupOffsetsResponseGroup))
