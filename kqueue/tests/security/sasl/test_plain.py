"""PLAIN, and passwords in clear and hashed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import SlowStep
from kqueue.security.sasl.passwords import HASHED_BY, Passwords
from kqueue.security.sasl.plain import PlainClient, PlainServer
from kqueue.security.scram_credentials import make_credential
from kqueue.tests.tables import for_each

CLEAR = Passwords({"ann": "secret", "bob": "geheim"})
MIXED = Passwords({"ann": "secret", "eva": make_credential(HASHED_BY, "hidden")})


def answer(passwords: Passwords, message: bytes) -> PlainServer:
    server = PlainServer(passwords)
    response = server.respond(message)
    if isinstance(response, SlowStep):
        response = response.finish(response.run())
    assert response == b""
    return server


@for_each("passwords", [CLEAR, MIXED])
def test_a_user_authenticates(passwords):
    client = PlainClient("ann", "secret")
    server = answer(passwords, client.first())
    assert server.authenticated.principal == Principal("User", "ann")
    assert server.authenticated.expires_ms is None
    assert client.respond(b"") is None
    assert client.is_complete
    assert answer(passwords, b"ann\0ann\0secret").authenticated is not None


def test_a_hashed_password_is_checked_in_a_job():
    step = PlainServer(MIXED).respond(b"\0eva\0hidden")
    assert isinstance(step, SlowStep)
    assert answer(MIXED, b"\0eva\0hidden").authenticated.principal.name == "eva"


REFUSED = [
    b"\0ann\0geheim",
    b"\0nobody\0secret",
    b"\0ann\0secret2",
    b"\0ann\0secre",
    b"\0\xff\0secret",
    b"\0ann\0secret\xff",
]
MALFORMED = [
    b"",
    b"ann",
    b"\0ann",
    b"\0\0secret",
    b"\0ann\0",
    b"bob\0ann\0secret",
    b"\0ann\0secret\0",
]


@for_each("passwords", [CLEAR, MIXED])
@for_each("message", REFUSED + MALFORMED)
def test_malformed_or_wrong_credentials_are_refused(passwords, message):
    with pytest.raises(SaslAuthenticationFailed) as error:
        answer(passwords, message)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_an_unknown_user_is_answered_as_a_wrong_password_is():
    messages = set()
    for message in REFUSED:
        with pytest.raises(SaslAuthenticationFailed) as error:
            answer(CLEAR, message)
        messages.add(str(error.value))
    assert len(messages) == 1


@given(st.binary(max_size=60))
def test_no_message_authenticates_by_chance(message):
    server = PlainServer(CLEAR)
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(message)
    assert server.authenticated is None


def test_no_secret_is_in_a_repr():
    assert "secret" not in repr(PlainClient("ann", "secret")) + repr(CLEAR) + repr(PlainServer(CLEAR))
