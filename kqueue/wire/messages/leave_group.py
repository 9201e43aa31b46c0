"""LeaveGroup (key 13): stop being a member of a group."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = field(string, "3+")
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    reason: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str = field(string)
    member_id: str = field(string, "0-2")
    members: list[MemberIdentity] = field(array(MemberIdentity), "3+")


@struct
class MemberResponse:
    member_id: str = field(string, "3+")
    group_instance_id: str | None = field(string, "3+", nullable="3+")
    error_code: int = field(int16, "3+")


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    error_code: int = field(int16)
    members: list[MemberResponse] = field(array(MemberResponse), "3+")
