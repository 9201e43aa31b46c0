"""OffsetCommit (key 8): store a group's positions."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, "6+", default=-1, ignorable=True)
    commit_timestamp: int = field(int64, "1", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = field(string, "0-9", ignorable=True)
    topic_id: bytes = field(uuid, "10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, "1+", default=-1, ignorable=True)
    member_id: str = field(string, "1+", ignorable=True)
    group_instance_id: str | None = field(string, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(int64, "2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class OffsetCommitResponseTopic:
    name: str = field(string, "0-9", ignorable=True)
    topic_id: bytes = field(uuid, "10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = field(int32, "3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
