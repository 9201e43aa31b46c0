"""ShareGroupDescribe (key 77): ask for the state of share groups (KIP-932)."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, shortened, string, struct, uuid


@message(api_key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class TopicPartitions:
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@struct
class Member:
    member_id: str = field(string)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    assignment: Assignment = field(Assignment)


@struct
class DescribedGroup:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(int32, default=-(2**31))


@message(api_key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
