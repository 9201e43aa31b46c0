"""ReadShareGroupState (key 84): the persisted state of share partitions (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class PartitionData:
    partition: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class ReadStateData:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str = field(string)
    topics: list[ReadStateData] = field(array(ReadStateData))


@struct
class StateBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


@struct
class PartitionResult:
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    state_epoch: int = field(int32)
    start_offset: int = field(int64)
    state_batches: list[StateBatch] = field(array(StateBatch))


@struct
class ReadStateResult:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field(array(ReadStateResult))
