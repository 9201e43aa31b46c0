"""Which error code reports which exception."""

from __future__ import annotations

import pytest

from kqueue.api.errors import EXCEPTION_CODES, code_of, message_of
from kqueue.base import errors
from kqueue.wire.error_codes import ErrorCode


def subclasses(kind: type[BaseException]) -> list[type[BaseException]]:
    return [subclass for child in kind.__subclasses__() for subclass in (child, *subclasses(child))]


@pytest.mark.parametrize("kind", sorted(subclasses(errors.RequestRefused), key=lambda kind: kind.__name__))  # type: ignore[attr-defined]
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
