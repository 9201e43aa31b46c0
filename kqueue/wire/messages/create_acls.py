"""CreateAcls (key 30): add access rules."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, shortened, string, struct


@struct
class AclCreation:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    resource_pattern_type: int = field(int8, "1+", default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = field(array(AclCreation))


@struct
class AclCreationResult:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = field(int32)
    results: list[AclCreationResult] = field(array(AclCreationResult))
