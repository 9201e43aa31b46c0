"""ListGroups (key 16): ask for the names of all groups."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = field(array(string), "4+")
    types_filter: list[str] = field(array(string), "5+")


@struct
class ListedGroup:
    group_id: str = field(string)
    protocol_type: str = field(string)
    group_state: str = field(string, "4+", ignorable=True)
    group_type: str = field(string, "5+", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    error_code: int = field(int16)
    groups: list[ListedGroup] = field(array(ListedGroup))
