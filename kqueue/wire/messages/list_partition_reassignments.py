"""ListPartitionReassignments (key 46): ask which partitions are being moved."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, shortened, string, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: int = field(int32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment:
    partition_index: int = field(int32)
    replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32))
    removing_replicas: list[int] = field(array(int32))


@struct
class OngoingTopicReassignment:
    name: str = field(string)
    partitions: list[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    topics: list[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))
