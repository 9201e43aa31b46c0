"""SaslAuthenticate: the exchange itself is tested in tests/network/test_sasl_gate.py."""

from __future__ import annotations

from types import SimpleNamespace

from kqueue.api.handlers.sasl_authenticate import error_response, handle
from kqueue.api.request_context import RequestContext
from kqueue.api.sasl_connection import SaslAnswer
from kqueue.base.promise import Promise
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def answer(promise: Promise[SaslAnswer]) -> SaslAuthenticateResponse:
    sasl = SimpleNamespace(respond=lambda token: promise)
    context = RequestContext(SimpleNamespace(), 2, connection=SimpleNamespace(sasl=sasl))
    return handle(SaslAuthenticateRequest(auth_bytes=b"x"), context)


def test_the_answer_has_the_token_and_the_length_of_the_session():
    promise: Promise[SaslAnswer] = Promise()
    promise.resolve(SaslAnswer(b"token", 5000))
    response = answer(promise)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"token", 5000)


def test_a_failure_has_its_message():
    promise: Promise[SaslAnswer] = Promise()
    promise.fail(SaslAuthenticationFailed("no"))
    response = answer(promise)
    assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "no")


def test_an_unexpected_error_is_not_shown():
    response = error_response(SaslAuthenticateRequest(auth_bytes=b""), 2, RuntimeError("secret"))
    assert "secret" not in response.error_message
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
