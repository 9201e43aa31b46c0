"""DescribeGroups (key 15): ask for the state and members of groups."""

from __future__ import annotations

from kqueue.schema import array, boolean, bytes_, field, int16, int32, message, shortened, string, struct


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean, "3+")


@struct
class DescribedGroupMember:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, "4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    member_metadata: bytes = field(bytes_)
    member_assignment: bytes = field(bytes_)


@struct
class DescribedGroup:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, "6+", nullable="6+", default=None))
    group_id: str = field(string)
    group_state: str = field(string)
    protocol_type: str = field(string)
    protocol_data: str = field(string)
    members: list[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(int32, "3+", default=-(2**31))


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
