"""DescribeUserScramCredentials (key 50): ask which SCRAM credentials users have."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, shortened, string, struct


@struct
class UserName:
    name: str = field(string)


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(array(UserName), nullable="0+")


@struct
class CredentialInfo:
    mechanism: int = field(int8)
    iterations: int = field(int32)


@struct
class DescribeUserScramCredentialsResult:
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))
    results: list[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))
