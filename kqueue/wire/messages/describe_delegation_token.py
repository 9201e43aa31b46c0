"""DescribeDelegationToken (key 41): the tokens of users."""

from __future__ import annotations

from kqueue.schema import array, bytes_, field, int16, int32, int64, message, string, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = field(string)
    principal_name: str = field(string)


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(array(DescribeDelegationTokenOwner), nullable="0+")


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = field(string)
    principal_name: str = field(string)


@struct
class DescribedDelegationToken:
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, "3+")
    token_requester_principal_name: str = field(string, "3+")
    issue_timestamp: int = field(int64)
    expiry_timestamp: int = field(int64)
    max_timestamp: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    renewers: list[DescribedDelegationTokenRenewer] = field(array(DescribedDelegationTokenRenewer))


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = field(int16)
    tokens: list[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(int32)
