"""SyncGroup (key 14): hand in the leader's assignment, or receive one's own part of it."""

from __future__ import annotations

from kqueue.schema import array, bytes_, field, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = field(string)
    assignment: bytes = field(bytes_)


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    error_code: int = field(int16)
    protocol_type: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, "5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(bytes_)
