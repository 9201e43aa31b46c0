"""DeleteShareGroupState (key 86): forget share partitions (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, shortened, string, struct, uuid


@struct
class PartitionData:
    partition: int = field(int32)


@struct
class DeleteStateData:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str = field(string)
    topics: list[DeleteStateData] = field(array(DeleteStateData))


@struct
class PartitionResult:
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@struct
class DeleteStateResult:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field(array(DeleteStateResult))
