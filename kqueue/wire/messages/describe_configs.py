"""DescribeConfigs (key 32): ask for settings and where their values come from."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int8, int16, int32, message, shortened, string, struct


@struct
class DescribeConfigsResource:
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configuration_keys: list[str] | None = field(array(string), nullable="0+")


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(boolean, "1+")
    include_documentation: bool = field(boolean, "3+")


@struct
class DescribeConfigsSynonym:
    name: str = field(string, "1+")
    value: str | None = field(string, "1+", nullable="0+")
    source: int = field(int8, "1+")


@struct
class DescribeConfigsResourceResult:
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    read_only: bool = field(boolean)
    is_default: bool = field(boolean, "0")
    config_source: int = field(int8, "1+", default=-1, ignorable=True)
    is_sensitive: bool = field(boolean)
    synonyms: list[DescribeConfigsSynonym] = field(array(DescribeConfigsSynonym), "1+", ignorable=True)
    config_type: int = field(int8, "3+", ignorable=True)
    documentation: str | None = field(string, "3+", nullable="0+", ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = field(int32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))
