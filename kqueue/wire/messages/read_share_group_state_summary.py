"""ReadShareGroupStateSummary (key 87): where share groups are (KIP-932, KIP-1226)."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, shortened, string, struct, uuid


@struct
class PartitionData:
    partition: int = field(int32)
    leader_epoch: int = field(int32)


@struct
class ReadStateSummaryData:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: str = field(string)
    topics: list[ReadStateSummaryData] = field(array(ReadStateSummaryData))


@struct
class PartitionResult:
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, "1+", ignorable=True, default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field(array(ReadStateSummaryResult))
