"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, shortened, string, struct, uuid


@message(api_key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)


@struct
class TopicPartitions:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message(api_key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
