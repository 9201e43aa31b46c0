"""UpdateFeatures (key 57): raise or lower finalized feature levels."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int8, int16, int32, message, shortened, string, struct


@struct
class FeatureUpdateKey:
    feature: str = field(string)
    max_version_level: int = field(int16)
    allow_downgrade: bool = field(boolean, "0")
    upgrade_type: int = field(int8, "1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int = field(int32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(boolean, "1+")


@struct
class UpdatableFeatureResult:
    feature: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), "0-1", ignorable=True)
