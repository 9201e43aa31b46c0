"""ExpireDelegationToken (key 40): end a token, or say when it ends."""

from __future__ import annotations

from kqueue.schema import bytes_, field, int16, int32, int64, message


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = field(bytes_)
    expiry_time_period_ms: int = field(int64)


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)
