"""SASL from the client's side, against the broker's side of each mechanism."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.client_protocol.authentication import ClientAuthentication, CredentialsRefused, Login, MechanismNotOffered
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import ServerMechanism, SlowStep
from kqueue.security.sasl.login import SaslLogin
from kqueue.security.sasl.passwords import Passwords
from kqueue.security.sasl.plain import PlainServer
from kqueue.security.sasl.scram import ScramServer
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramAccount, make_credential
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeResponse

PLAIN = SaslLogin("PLAIN", "ann", "secret")
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
ACCOUNT = ScramAccount(make_credential(SHA_256, "secret"), Principal("User", "ann"))
MADE_UP = MadeUpCredentials(lambda: b"x" * 32)
SERVERS: dict[str, Callable[[], ServerMechanism]] = {
    "PLAIN": lambda: PlainServer(Passwords({"ann": "secret"})),
    "SCRAM-SHA-256": lambda: ScramServer(SHA_256, lambda *_: ACCOUNT, MADE_UP),
}


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


def run(login: SaslLogin, server: ServerMechanism) -> ClientAuthentication:
    authentication = begun(login)
    while (request := authentication.next_request()) is not None:
        authentication.receive(answer(server, request))
    return authentication


def begun(login: Login) -> ClientAuthentication:
    """An authentication whose mechanism the broker has."""
    authentication = ClientAuthentication(login)
    assert authentication.begin().mechanism == login.mechanism
    authentication.receive(SaslHandshakeResponse(mechanisms=[login.mechanism]))
    return authentication


@for_each("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_exchange_ends_with_the_lifetime_of_the_session(mechanism: str) -> None:
    server = SERVERS[mechanism]()
    assert run(SaslLogin(mechanism, "ann", "secret"), server).session_lifetime_ms == 5_000
    assert server.authenticated is not None


def test_refused_credentials_have_the_words_of_the_broker() -> None:
    with pytest.raises(CredentialsRefused, match="it refuses the credentials: Authentication failed") as raised:
        run(SaslLogin("PLAIN", "ann", "guessed"), SERVERS["PLAIN"]())
    assert raised.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "guessed" not in str(raised.value)


def test_another_refusal_is_told_by_its_code() -> None:
    authentication = begun(PLAIN)
    authentication.next_request()
    with pytest.raises(CredentialsRefused, match="it refuses: error 34"):
        authentication.receive(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, auth_bytes=b""))


def test_a_mechanism_that_is_not_offered_names_those_that_are() -> None:
    refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["A", "B"])
    with pytest.raises(MechanismNotOffered, match=r"it does not offer PLAIN but A, B \(error 33\)") as raised:
        ClientAuthentication(PLAIN).receive(refusal)
    assert list(raised.value.offered) == ["A", "B"]


def test_a_broker_that_does_not_prove_to_know_the_password_is_not_trusted() -> None:
    authentication = begun(SaslLogin("SCRAM-SHA-256", "ann", "secret"))
    authentication.next_request()
    authentication.receive(SaslAuthenticateResponse(auth_bytes=b""))
    with pytest.raises(SaslAuthenticationFailed, match="expected a server-first-message"):
        authentication.next_request()


def test_a_mechanism_that_ends_before_it_is_complete_is_refused() -> None:
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

    authentication = begun(SilentLogin())
    authentication.next_request()
    authentication.receive(SaslAuthenticateResponse(auth_bytes=b""))
    with pytest.raises(SaslAuthenticationFailed, match="too early"):
        authentication.next_request()
