"""AlterUserScramCredentials (key 51): set or remove SCRAM credentials of users."""

from __future__ import annotations

from kqueue.schema import array, bytes_, field, int8, int16, int32, message, shortened, string, struct


@struct
class ScramCredentialDeletion:
    name: str = field(string)
    mechanism: int = field(int8)


@struct
class ScramCredentialUpsertion:
    name: str = field(string)
    mechanism: int = field(int8)
    iterations: int = field(int32)
    salt: bytes = field(bytes_)
    salted_password: bytes = field(bytes_)


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+"))


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field(int32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
