"""What servers answer, as the contract's errors, and without secrets."""

from __future__ import annotations

from types import SimpleNamespace

from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.cloud_address import CloudAddress
from kqueue.tier.stores.cloud_errors import CloudErrors

SECRET = "hunter2"
NAME = "s3://bucket/key"


class Generic(Exception):
    """As obstore's own classes."""


class InvalidPath(Generic):
    pass


class PermissionDenied(Generic):
    pass


EXCEPTIONS = SimpleNamespace(
    InvalidPathError=InvalidPath, PermissionDeniedError=PermissionDenied, UnauthenticatedError=PermissionDenied
)
ERRORS = CloudErrors(CloudAddress.parse(f"s3://bucket?secret_access_key={SECRET}", {}), EXCEPTIONS)


def answer(status: int, code: str = "", message: str = "Said so") -> str:
    body = f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>' if code else ""
    return (
        f"Generic S3 error: Error performing PUT http://h:1/bucket/key?X-Amz-Signature={SECRET} in 5ms - Server "
        f"returned non-2xx status code: {status} Some Reason: {body}\n\nDebug source:\nGeneric {{ secret: {SECRET} }}"
    )


@for_each(
    "said, expected",
    [
        (answer(500, "InternalError"), TierUnavailable),
        (answer(503, "SlowDown"), TierUnavailable),
        (answer(502), TierUnavailable),
        (answer(429), TierUnavailable),
        (answer(408), TierUnavailable),
        (answer(409, "OperationAborted"), TierUnavailable),
        (answer(400, "RequestTimeout"), TierUnavailable),
        (answer(400, "ExpiredToken"), TierDenied),
        (answer(403, "AccessDenied"), TierDenied),
        (answer(403), TierDenied),
        (answer(401), TierDenied),
        (answer(416, "InvalidRange"), TierCorrupt),
        (answer(404, "NoSuchBucket"), TierError),
        (answer(400, "InvalidRequest"), TierError),
        (answer(301, "PermanentRedirect"), TierError),
        (answer(501, "NotImplemented"), TierError),
        (
            "Generic S3 error: Error performing GET http://h/x in 1ms - HTTP error: error sending request",
            TierUnavailable,
        ),
        ("Generic S3 error: HTTP error: request or response body error", TierUnavailable),
        ("Generic S3 error: HTTP error: builder error", TierError),
        ("Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s", TierDenied),
        (answer(404).replace("h:1/bucket/key", "169.254.169.254/latest/api/token"), TierDenied),
        (answer(503).replace("bucket/key", "bucket/169.254.169.254/credentials-1"), TierUnavailable),
        ("something new", TierUnavailable),
        ("x" * 1_000_000, TierUnavailable),
    ],
)
def test_answer_is_an_error_of_the_contract(said: str, expected: type[TierError]) -> None:
    error = ERRORS.translated(NAME, Generic(said))
    assert type(error) is expected
    assert str(error).startswith(NAME)
    assert SECRET not in str(error)
    assert len(str(error)) < 600
    assert "\n" not in str(error)


def test_missing_object_is_not_found_but_in_a_missing_bucket() -> None:
    assert type(ERRORS.translated(NAME, FileNotFoundError(answer(404, "NoSuchKey")))) is ObjectNotFound
    assert type(ERRORS.translated(NAME, FileNotFoundError(answer(404, "InvalidAccessKeyId")))) is TierDenied
    assert type(ERRORS.translated(NAME, FileNotFoundError(answer(404, "SomethingNew")))) is TierError
    error = ERRORS.translated(NAME, FileNotFoundError(answer(404, "NoSuchBucket")))
    assert type(error) is TierError
    assert "there is no s3://bucket: create it" in str(error)


def test_classes_of_obstore_count() -> None:
    assert type(ERRORS.translated(NAME, PermissionDenied("no"))) is TierDenied
    assert type(ERRORS.translated(NAME, InvalidPath("Path a//b"))) is TierError


def test_denied_says_where_credentials_are_looked_for() -> None:
    assert "set AWS_ACCESS_KEY_ID" in str(ERRORS.translated(NAME, Generic(answer(403, "AccessDenied"))))
    google = CloudErrors(CloudAddress.parse("gs://bucket", {}), EXCEPTIONS)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(google.translated("gs://bucket/a", Generic(answer(401))))


def test_text_has_code_and_message_only() -> None:
    error = ERRORS.translated(NAME, Generic(answer(503, "SlowDown", f"Please\nreduce {SECRET}")))
    assert str(error) == "s3://bucket/key: 503 SlowDown: Please reduce ***"
