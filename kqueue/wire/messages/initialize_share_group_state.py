"""InitializeShareGroupState (key 83): give share partitions a state (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class PartitionData:
    partition: int = field(int32)
    state_epoch: int = field(int32)
    start_offset: int = field(int64)


@struct
class InitializeStateData:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str = field(string)
    topics: list[InitializeStateData] = field(array(InitializeStateData))


@struct
class PartitionResult:
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@struct
class InitializeStateResult:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field(array(InitializeStateResult))
