"""SaslAuthenticate (key 36): exchange one step of a SASL mechanism."""

from __future__ import annotations

from kqueue.schema import bytes_, field, int16, int64, message, shortened, string


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = field(bytes_)


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    auth_bytes: bytes = field(bytes_)
    session_lifetime_ms: int = field(int64, "1+", ignorable=True)
