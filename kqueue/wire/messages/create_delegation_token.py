"""CreateDelegationToken (key 38): a token with which others may act as a user."""

from __future__ import annotations

from kqueue.schema import array, bytes_, field, int16, int32, int64, message, string, struct


@struct
class CreatableRenewers:
    principal_type: str = field(string)
    principal_name: str = field(string)


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = field(string, "3+", nullable="3+")
    owner_principal_name: str | None = field(string, "3+", nullable="3+")
    renewers: list[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(int64)


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = field(int16)
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, "3+")
    token_requester_principal_name: str = field(string, "3+")
    issue_timestamp_ms: int = field(int64)
    expiry_timestamp_ms: int = field(int64)
    max_timestamp_ms: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    throttle_time_ms: int = field(int32)
