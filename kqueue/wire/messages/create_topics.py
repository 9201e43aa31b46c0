"""CreateTopics (key 19): make topics."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int8, int16, int32, message, shortened, string, struct, uuid


@struct
class CreatableReplicaAssignment:
    partition_index: int = field(int32)
    broker_ids: list[int] = field(array(int32))


@struct
class CreatableTopicConfig:
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


@struct
class CreatableTopic:
    name: str = field(string)
    num_partitions: int = field(int32)
    replication_factor: int = field(int16)
    assignments: list[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array(CreatableTopicConfig))


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(int32, default=60000)
    validate_only: bool = field(boolean, "1+")


@struct
class CreatableTopicConfigs:
    name: str = field(string, "5+")
    value: str | None = field(string, "5+", nullable="5+")
    read_only: bool = field(boolean, "5+")
    config_source: int = field(int8, "5+", default=-1, ignorable=True)
    is_sensitive: bool = field(boolean, "5+")


@struct
class CreatableTopicResult:
    name: str = field(string)
    topic_id: bytes = field(uuid, "7+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, "1+", nullable="0+", ignorable=True))
    topic_config_error_code: int = field(int16, "5+", tag=0, ignorable=True)
    num_partitions: int = field(int32, "5+", default=-1, ignorable=True)
    replication_factor: int = field(int16, "5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        array(CreatableTopicConfigs), "5+", nullable="5+", ignorable=True
    )


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: int = field(int32, "2+", ignorable=True)
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))
