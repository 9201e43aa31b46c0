"""UnregisterBroker (key 64): remove a broker from the cluster."""

from __future__ import annotations

from kqueue.schema import field, int16, int32, message, shortened, string


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = field(int32)


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
