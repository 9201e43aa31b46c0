"""PushTelemetry (key 72): push metrics of a client (KIP-714)."""

from __future__ import annotations

from kqueue.schema import boolean, bytes_, field, int8, int16, int32, message, uuid


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: bytes = field(uuid)
    subscription_id: int = field(int32)
    terminating: bool = field(boolean)
    compression_type: int = field(int8)
    metrics: bytes = field(bytes_)


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
