"""The framing of OAUTHBEARER."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import Authenticated
from kqueue.security.sasl.oauthbearer import InvalidToken, OAuthBearerClient, OAuthBearerServer
from kqueue.tests.tables import for_each

ANN = Authenticated(Principal("User", "a,n"), 1000)


class Validator:
    def validate(self, token: str) -> Authenticated:
        if token != "good.token-1_":
            raise InvalidToken("it has expired (exp)")
        return ANN


def server() -> OAuthBearerServer:
    return OAuthBearerServer(Validator())


def test_both_sides_agree():
    client, one = OAuthBearerClient("good.token-1_", {"traceId": "a b"}), server()
    assert client.first() == b"n,,\x01auth=Bearer good.token-1_\x01traceId=a b\x01\x01"
    assert client.respond(one.respond(client.first())) is None
    assert client.is_complete
    assert one.authenticated == ANN
    assert "good" not in repr(client)


def test_a_refused_token_is_answered_and_refused_after_the_acknowledgement():
    client, one = OAuthBearerClient("bad"), server()
    answer = one.respond(client.first())
    assert answer == b'{"status":"invalid_token"}'
    acknowledgement = client.respond(answer)
    assert acknowledgement == b"\x01"
    assert one.authenticated is None
    with pytest.raises(SaslAuthenticationFailed) as error:
        one.respond(acknowledgement)
    assert str(error.value) == '{"status":"invalid_token"}'
    assert error.value.detail == "it has expired (exp)"
    assert not client.is_complete


def test_a_refused_token_can_not_be_followed_by_another():
    one = server()
    one.respond(OAuthBearerClient("bad").first())
    with pytest.raises(SaslAuthenticationFailed):
        one.respond(OAuthBearerClient("good.token-1_").first())
    assert one.authenticated is None


def test_the_authorization_id_must_be_the_subject():
    assert server().respond(b"n,a=a=2Cn,\x01auth=bearer  good.token-1_\x01\x01") == b""
    assert server().respond(b"n,a=bob,\x01auth=Bearer good.token-1_\x01\x01") != b""


@for_each(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=good.token-1_\x01\x01",
        b"n,,\x01auth=Basic good.token-1_\x01\x01",
        b"n,,\x01auth=Bearer good.token-1_\x01",
        b"y,,\x01auth=Bearer good.token-1_\x01\x01",
        b"n,,\x01auth=Bearer good.token-1_\x01auth=Bearer good.token-1_\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good.token-1_\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 65537 + b"\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_malformed_messages_are_refused(message):
    with pytest.raises(SaslAuthenticationFailed) as error:
        server().respond(message)
    assert "good" not in str(error.value)


@given(st.binary(max_size=60))
def test_any_message_is_refused(message):
    one = server()
    with contextlib.suppress(SaslAuthenticationFailed):
        one.respond(message)
    assert one.authenticated is None
