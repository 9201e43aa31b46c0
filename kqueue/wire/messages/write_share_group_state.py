"""WriteShareGroupState (key 85): change the persisted state of share partitions (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class StateBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


@struct
class PartitionData:
    partition: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, "1+", ignorable=True, default=-1)
    state_batches: list[StateBatch] = field(array(StateBatch))


@struct
class WriteStateData:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: str = field(string)
    topics: list[WriteStateData] = field(array(WriteStateData))


@struct
class PartitionResult:
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@struct
class WriteStateResult:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field(array(WriteStateResult))
