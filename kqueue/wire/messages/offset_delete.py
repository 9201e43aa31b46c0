"""OffsetDelete (key 47): forget stored positions of a group."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = field(int32)


@struct
class OffsetDeleteRequestTopic:
    name: str = field(string)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetDeleteResponseTopic:
    name: str = field(string)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: int = field(int16)
    throttle_time_ms: int = field(int32, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))
