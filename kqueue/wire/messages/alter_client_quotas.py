"""AlterClientQuotas (key 49): set or remove client quotas."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, float64, int16, int32, message, shortened, string, struct


@struct
class EntityData:
    entity_type: str = field(string)
    entity_name: str | None = field(string, nullable="0+")


@struct
class OpData:
    key: str = field(string)
    value: float = field(float64)
    remove: bool = field(boolean)


@struct
class EntryDataInRequest:
    entity: list[EntityData] = field(array(EntityData))
    ops: list[OpData] = field(array(OpData))


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryDataInRequest] = field(array(EntryDataInRequest))
    validate_only: bool = field(boolean)


@struct
class EntryDataInResponse:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    entity: list[EntityData] = field(array(EntityData))


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = field(int32)
    entries: list[EntryDataInResponse] = field(array(EntryDataInResponse))
