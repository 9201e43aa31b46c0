"""AlterPartition (key 56): a leader changes its partition's in-sync replicas."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, string, struct, uuid


@struct
class BrokerState:
    broker_id: int = field(int32, "3+")
    broker_epoch: int = field(int64, "3+", default=-1)


@struct
class PartitionDataInRequest:
    partition_index: int = field(int32)
    leader_epoch: int = field(int32)
    new_isr: list[int] = field(array(int32), "0-2")
    new_isr_with_epochs: list[BrokerState] = field(array(BrokerState), "3+")
    leader_recovery_state: int = field(int8, "1+")
    partition_epoch: int = field(int32)


@struct
class TopicDataInRequest:
    topic_name: str = field(string, "0-1", ignorable=True)
    topic_id: bytes = field(uuid, "2+", ignorable=True)
    partitions: list[PartitionDataInRequest] = field(array(PartitionDataInRequest))


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest:
    broker_id: int = field(int32)
    broker_epoch: int = field(int64, default=-1)
    topics: list[TopicDataInRequest] = field(array(TopicDataInRequest))


@struct
class PartitionDataInResponse:
    partition_index: int = field(int32)
    error_code: int = field(int16)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)
    isr: list[int] = field(array(int32))
    leader_recovery_state: int = field(int8, "1+", ignorable=True)
    partition_epoch: int = field(int32)


@struct
class TopicDataInResponse:
    topic_name: str = field(string, "0-1", ignorable=True)
    topic_id: bytes = field(uuid, "2+", ignorable=True)
    partitions: list[PartitionDataInResponse] = field(array(PartitionDataInResponse))


@message(api_key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    topics: list[TopicDataInResponse] = field(array(TopicDataInResponse))
