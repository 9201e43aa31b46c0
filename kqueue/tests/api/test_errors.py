"""The error codes of exceptions."""

from __future__ import annotations

import pytest

from kqueue.api import errors as api_errors
from kqueue.api.errors import EXCEPTION_CODES, CodedError, code_of, message_of
from kqueue.base import errors
from kqueue.base.rate_limiter import RateLimiter
from kqueue.share.errors import NoShareState
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


def subclasses(kind: type[BaseException]) -> list[type[BaseException]]:
    return [subclass for child in kind.__subclasses__() for subclass in (child, *subclasses(child))]


@for_each("kind", sorted(subclasses(errors.RequestRefused), key=lambda kind: kind.__name__))  # type: ignore[attr-defined]
def test_every_refusal_has_a_code_of_its_own_or_shares_it_knowingly(kind: type[BaseException]) -> None:
    assert kind in EXCEPTION_CODES
    assert EXCEPTION_CODES[kind] not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_refusals_do_not_share_codes() -> None:
    codes = [EXCEPTION_CODES[kind] for kind in errors.RequestRefused.__subclasses__()]
    assert len(codes) == len(set(codes))


def test_an_unlisted_class_takes_the_code_of_its_nearest_base() -> None:
    class Odd(errors.CorruptBatch):
        pass

    assert code_of(Odd("x")) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(errors.MalformedMessage("x")) is ErrorCode.INVALID_REQUEST
    assert code_of(errors.CorruptIndex("x")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(ZeroDivisionError()) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(errors.KqueueError("x")) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(None) is ErrorCode.NONE


def test_only_kqueue_errors_return_their_message() -> None:
    assert message_of(errors.InvalidTopic("a topic name must not be empty")) == "a topic name must not be empty"
    assert "secret" not in str(message_of(ValueError("secret")))
    for kind in (errors.PluginError, errors.StorageFailed):
        assert message_of(kind("codec 'x' of d 1.0 failed", detail="secret")) == "codec 'x' of d 1.0 failed"
        assert str(kind("codec 'x' of d 1.0 failed", detail="secret")) == "codec 'x' of d 1.0 failed: secret"
    assert message_of(None) is None


def answered(error: BaseException) -> ErrorCode:
    """As handlers answer: the code and the message of one error, which may go to several places."""
    message_of(error)
    code_of(error)
    return code_of(error)


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        errors.KqueueError("without a code"),
        errors.PluginError("codec 'x' of d 1.0 failed", detail="why"),
        NoShareState("no heartbeat yet"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unknown_server_error_is_logged_once_with_its_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)):
        raise error
    assert answered(error) is ErrorCode.UNKNOWN_SERVER_ERROR
    [record] = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "kqueue.server")
    assert str(error) in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert record.exc_info[2] is not None


def test_an_error_with_a_code_of_its_own_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for kind in errors.RequestRefused.__subclasses__():
        assert code_of(kind("x")) is EXCEPTION_CODES[kind]
    assert code_of(CodedError(ErrorCode.INVALID_REQUEST, "x")) is ErrorCode.INVALID_REQUEST
    assert not caplog.records


def test_a_client_can_not_fill_the_log_with_unexpected_errors(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_errors, "_limiter", RateLimiter(10, ManualClock(), 100))
    for _ in range(1000):
        assert answered(ZeroDivisionError()) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(caplog.records) == 100


def test_missing_share_state_message_reaches_clients() -> None:
    assert message_of(NoShareState("group 'g' has no state")) == "group 'g' has no state"
