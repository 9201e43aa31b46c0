"""AlterPartitionReassignments (key 45): move partitions to other brokers, or call a move off."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, shortened, string, struct


@struct
class ReassignablePartition:
    partition_index: int = field(int32)
    replicas: list[int] | None = field(array(int32), nullable="0+", default=None)


@struct
class ReassignableTopic:
    name: str = field(string)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field(int32, default=60000)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))


@struct
class ReassignableTopicResponse:
    name: str = field(string)
    partitions: list[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field(int32)
    allow_replication_factor_change: bool = field(boolean, "1+", default=True, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))
