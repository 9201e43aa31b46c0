"""AlterReplicaLogDirs (key 34): move replicas between the data folders of a broker."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class AlterReplicaLogDir:
    path: str = field(string)
    topics: list[AlterReplicaLogDirTopic] = field(array(AlterReplicaLogDirTopic))


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = field(string)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(array(AlterReplicaLogDirPartitionResult))


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = field(int32)
    results: list[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))
