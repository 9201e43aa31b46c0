"""CreatePartitions (key 37): add partitions to topics."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, shortened, string, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(array(int32))


@struct
class CreatePartitionsTopic:
    name: str = field(string)
    count: int = field(int32)
    assignments: list[CreatePartitionsAssignment] | None = field(array(CreatePartitionsAssignment), nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


@struct
class CreatePartitionsTopicResult:
    name: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))
