"""ElectLeaders (key 43): have leaders of partitions elected."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, shortened, string, struct


@struct
class TopicPartitions:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int = field(int8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(int32, default=60000)


@struct
class PartitionResult:
    partition_id: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))


@struct
class ReplicaElectionResult:
    topic: str = field(string)
    partition_result: list[PartitionResult] = field(array(PartitionResult))


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))
