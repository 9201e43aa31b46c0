"""DeleteRecords (key 21): drop the records of partitions before an offset."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, string, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = field(int32)
    offset: int = field(int64)


@struct
class DeleteRecordsTopic:
    name: str = field(string)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(int32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = field(int32)
    low_watermark: int = field(int64)
    error_code: int = field(int16)


@struct
class DeleteRecordsTopicResult:
    name: str = field(string)
    partitions: list[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))
