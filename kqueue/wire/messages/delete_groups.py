"""DeleteGroups (key 42): delete groups that have no members."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, string, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = field(array(string))


@struct
class DeletableGroupResult:
    group_id: str = field(string)
    error_code: int = field(int16)


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = field(int32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))
