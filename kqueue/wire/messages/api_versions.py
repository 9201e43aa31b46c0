"""ApiVersions (key 18): ask which requests the broker serves, in which versions."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, int64, message, string, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = field(string, "3+", ignorable=True)
    client_software_version: str = field(string, "3+", ignorable=True)


@struct
class ApiVersion:
    api_key: int = field(int16)
    min_version: int = field(int16)
    max_version: int = field(int16)


@struct
class SupportedFeatureKey:
    name: str = field(string, "3+")
    min_version: int = field(int16, "3+")
    max_version: int = field(int16, "3+")


@struct
class FinalizedFeatureKey:
    name: str = field(string, "3+")
    max_version_level: int = field(int16, "3+")
    min_version_level: int = field(int16, "3+")


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int = field(int16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(array(SupportedFeatureKey), "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = field(int64, "3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(array(FinalizedFeatureKey), "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field(boolean, "3+", tag=3, ignorable=True)
