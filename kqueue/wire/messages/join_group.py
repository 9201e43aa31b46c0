"""JoinGroup (key 11): become a member of a group and learn its generation."""

from __future__ import annotations

from kqueue.schema import array, boolean, bytes_, field, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = field(string)
    metadata: bytes = field(bytes_)


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, "1+", default=-1, ignorable=True)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "5+", nullable="5+", default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(string, "8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field(bytes_)


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = field(int32, "2+", ignorable=True)
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, "7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(string, nullable="7+")
    leader: str = field(string)
    skip_assignment: bool = field(boolean, "9+")
    member_id: str = field(string)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
