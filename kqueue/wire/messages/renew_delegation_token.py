"""RenewDelegationToken (key 39): let a token live longer."""

from __future__ import annotations

from kqueue.schema import bytes_, field, int16, int32, int64, message


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = field(bytes_)
    renew_period_ms: int = field(int64)


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)
