"""AlterConfigs (key 33): replace all settings of topics or brokers."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int8, int16, int32, message, shortened, string, struct


@struct
class AlterableConfig:
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(boolean)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    resource_type: int = field(int8)
    resource_name: str = field(string)


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = field(int32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
