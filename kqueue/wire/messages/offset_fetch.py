"""OffsetFetch (key 9): ask for a group's stored positions."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetFetchRequestTopic:
    name: str = field(string, "0-7")
    partition_indexes: list[int] = field(array(int32), "0-7")


@struct
class OffsetFetchRequestTopics:
    name: str = field(string, "8-9", ignorable=True)
    topic_id: bytes = field(uuid, "10+", ignorable=True)
    partition_indexes: list[int] = field(array(int32), "8+")


@struct
class OffsetFetchRequestGroup:
    group_id: str = field(string, "8+")
    member_id: str | None = field(string, "9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(int32, "9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), "8+", nullable="8+")


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    group_id: str = field(string, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(boolean, "7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: int = field(int32, "0-7")
    committed_offset: int = field(int64, "0-7")
    committed_leader_epoch: int = field(int32, "5-7", default=-1, ignorable=True)
    metadata: str | None = field(string, "0-7", nullable="0-7")
    error_code: int = field(int16, "0-7")


@struct
class OffsetFetchResponseTopic:
    name: str = field(string, "0-7")
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition), "0-7")


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = field(int32, "8+")
    committed_offset: int = field(int64, "8+")
    committed_leader_epoch: int = field(int32, "8+", default=-1, ignorable=True)
    metadata: str | None = field(string, "8+", nullable="8+")
    error_code: int = field(int16, "8+")


@struct
class OffsetFetchResponseTopics:
    name: str = field(string, "8-9", ignorable=True)
    topic_id: bytes = field(uuid, "10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(array(OffsetFetchResponsePartitions), "8+")


@struct
class OffsetFetchResponseGroup:
    group_id: str = field(string, "8+")
    topics: list[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics), "8+")
    error_code: int = field(int16, "8+")


@message(api_key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int = field(int32, "3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(int16, "2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), "8+")
