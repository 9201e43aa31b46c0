"""DescribeAcls (key 29): ask for access rules by a filter."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, shortened, string, struct


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+")
    pattern_type_filter: int = field(int8, "1+", default=3)
    principal_filter: str | None = field(string, nullable="0+")
    host_filter: str | None = field(string, nullable="0+")
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class AclDescription:
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@struct
class DescribeAclsResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, "1+", default=3)
    acls: list[AclDescription] = field(array(AclDescription))


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))
