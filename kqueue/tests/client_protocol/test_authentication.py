"""SASL from the client's side, against the broker's side of each mechanism."""

from __future__ import annotations

import pytest

from kqueue.base.errors import KqueueError
from kqueue.client_protocol.authentication import CredentialsRefused, MechanismNotOffered, SaslExchange
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.sasl.contract import ServerMechanism, SlowStep
from kqueue.security.sasl.login import SaslLogin
from kqueue.security.sasl.passwords import Passwords
from kqueue.security.sasl.plain import PlainServer
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeResponse

PLAIN = SaslLogin("PLAIN", "ann", "secret")
OFFERED = SaslHandshakeResponse(mechanisms=["PLAIN"])


def answer(server: ServerMechanism, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answer as a broker whose sessions last five seconds does."""
    try:
        step = server.respond(bytes(request.auth_bytes))
        token = step.finish(step.run()) if isinstance(step, SlowStep) else step
    except SaslAuthenticationFailed as error:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error), auth_bytes=b""
        )
    return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=5_000)


def run(login: SaslLogin, server: ServerMechanism) -> SaslExchange:
    exchange = SaslExchange(login)
    assert exchange.begin().mechanism == login.mechanism
    request = exchange.answer(OFFERED)
    while request is not None:
        request = exchange.answer(answer(server, request))
    return exchange


def test_the_exchange_ends_with_the_lifetime_of_the_session() -> None:
    server = PlainServer(Passwords({"ann": "secret"}))
    assert run(PLAIN, server).session_lifetime_ms == 5_000
    assert server.authenticated is not None


def test_refused_credentials_have_the_words_of_the_broker() -> None:
    with pytest.raises(CredentialsRefused, match="it refuses the credentials: Authentication failed") as raised:
        run(PLAIN, PlainServer(Passwords({"ann": "other"})))
    assert raised.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "secret" not in str(raised.value)


def test_another_refusal_is_told_by_its_code() -> None:
    exchange = SaslExchange(PLAIN)
    exchange.answer(OFFERED)
    with pytest.raises(CredentialsRefused, match="it refuses: error 34"):
        exchange.answer(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, auth_bytes=b""))


def test_a_mechanism_that_is_not_offered_names_those_that_are() -> None:
    exchange = SaslExchange(PLAIN)
    refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["A", "B"])
    with pytest.raises(MechanismNotOffered, match=r"it does not offer PLAIN but A, B \(error 33\)") as raised:
        exchange.answer(refusal)
    assert list(raised.value.offered) == ["A", "B"]


def test_a_broker_that_proves_nothing_is_not_trusted() -> None:
    """SCRAM proves that the broker knows the password too."""
    exchange = SaslExchange(SaslLogin("SCRAM-SHA-256", "ann", "secret"))
    exchange.answer(OFFERED)
    with pytest.raises(KqueueError, match="expected a server-first-message"):
        exchange.answer(SaslAuthenticateResponse(auth_bytes=b""))


def test_a_mechanism_without_an_end_is_refused() -> None:
    class Silent:
        name = "PLAIN"
        is_complete = False

        def first(self) -> bytes:
            return b""

        def respond(self, message: bytes) -> None:
            """Nothing remains to be sent, and yet nothing was proven."""

    class SilentLogin:
        mechanism = "PLAIN"

        def begin(self) -> Silent:
            return Silent()

    exchange = SaslExchange(SilentLogin())
    exchange.answer(OFFERED)
    with pytest.raises(SaslAuthenticationFailed, match="too early"):
        exchange.answer(SaslAuthenticateResponse(auth_bytes=b""))
