"""DescribeClientQuotas (key 48): ask for client quotas by a filter."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, float64, int8, int16, int32, message, shortened, string, struct


@struct
class ComponentData:
    entity_type: str = field(string)
    match_type: int = field(int8)
    match: str | None = field(string, nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(boolean)


@struct
class EntityData:
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+")


@struct
class ValueData:
    key: str = field(string)
    value: float = field(float64)


@struct
class EntryData:
    entity: list[EntityData] = field(array(EntityData))
    values: list[ValueData] = field(array(ValueData))


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    entries: list[EntryData] | None = field(array(EntryData), nullable="0+")
