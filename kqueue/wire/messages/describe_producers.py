"""DescribeProducers (key 61): ask for the producers that partitions know."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, shortened, string, struct


@struct
class TopicRequest:
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(array(TopicRequest))


@struct
class ProducerState:
    producer_id: int = field(int64)
    producer_epoch: int = field(int32)
    last_sequence: int = field(int32, default=-1)
    last_timestamp: int = field(int64, default=-1)
    coordinator_epoch: int = field(int32)
    current_txn_start_offset: int = field(int64, default=-1)


@struct
class PartitionResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    active_producers: list[ProducerState] = field(array(ProducerState))


@struct
class TopicResponse:
    name: str = field(string)
    partitions: list[PartitionResponse] = field(array(PartitionResponse))


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int = field(int32)
    topics: list[TopicResponse] = field(array(TopicResponse))
