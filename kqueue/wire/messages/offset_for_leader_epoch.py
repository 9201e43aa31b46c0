"""OffsetForLeaderEpoch (key 23): ask where the log of a leader epoch ended."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition:
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, "2+", default=-1, ignorable=True)
    leader_epoch: int = field(int32)


@struct
class OffsetForLeaderTopic:
    topic: str = field(string)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = field(int32, "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = field(int16)
    partition: int = field(int32)
    leader_epoch: int = field(int32, "1+", default=-1, ignorable=True)
    end_offset: int = field(int64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field(string)
    partitions: list[EpochEndOffset] = field(array(EpochEndOffset))


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = field(int32, "2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))
