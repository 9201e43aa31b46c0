"""ListConfigResources (key 74): ask for the names of what has settings."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, string, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = field(array(int8), "1+")


@struct
class ConfigResource:
    resource_name: str = field(string)
    resource_type: int = field(int8, "1+", default=16, ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))
