"""SCRAM of both sides, with each other and with scramp."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.principals import Principal
from kqueue.security.sasl.scram import ScramClient, ScramServer
from kqueue.security.scram_credentials import (
    SCRAM_MECHANISMS,
    ScramAccount,
    make_credential,
)
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
ANN = Principal("User", "ann")
MADE_UP = MadeUpCredentials(lambda: b"x" * 32)
CREDENTIALS = {name: make_credential(mechanism, "secret") for name, mechanism in SCRAM_MECHANISMS.items()}
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


def find(mechanism: str, name: str, by_token: bool) -> ScramAccount | None:
    credential = CREDENTIALS[mechanism]
    if by_token:
        return ScramAccount(credential, ANN._replace(by_token=True), 5000) if name == "t1" else None
    return ScramAccount(credential, ANN) if name in ("ann", "a,=n") else None


def server(mechanism=SHA_256):
    return ScramServer(mechanism, find, MADE_UP)


def exchange(client: ScramClient, server: ScramServer) -> None:
    answer = server.respond(client.first())
    while answer is not None and not client.is_complete:
        message = client.respond(answer)
        answer = None if message is None else server.respond(message)


@for_each("mechanism", SCRAM_MECHANISMS.values())
@for_each("user", ["ann", "a,=n"])
def test_both_sides_agree(mechanism, user):
    client, one = ScramClient(mechanism, user, "secret"), server(mechanism)
    exchange(client, one)
    assert client.is_complete
    assert one.authenticated.principal == ANN
    assert one.authenticated.expires_ms is None


def test_a_token_authenticates_its_owner_until_it_expires():
    client, one = ScramClient(SHA_512, "t1", "secret", by_token=True), server(SHA_512)
    exchange(client, one)
    assert one.authenticated.principal.by_token
    assert one.authenticated.expires_ms == 5000


@for_each("user, by_token", [("t1", False), ("ann", True)])
def test_users_and_tokens_are_not_mixed_up(user, by_token):
    with pytest.raises(SaslAuthenticationFailed):
        exchange(ScramClient(SHA_256, user, "secret", by_token=by_token), server())


@for_each("mechanism", SCRAM_MECHANISMS.values())
def test_another_implementation_is_understood(mechanism):
    one = server(mechanism)
    client = scramp.ScramClient([mechanism.name], "ann", "secret")
    client.set_server_first(one.respond(client.get_client_first().encode()).decode())
    client.set_server_final(one.respond(client.get_client_final().encode()).decode())
    assert one.authenticated.principal == ANN

    credential = CREDENTIALS[mechanism.name]
    stored = credential.salt, credential.stored_key, credential.server_key, credential.iterations
    other = scramp.ScramMechanism(mechanism.name).make_server(lambda user: stored)
    ours = ScramClient(mechanism, "ann", "secret")
    other.set_client_first(ours.first().decode())
    other.set_client_final(ours.respond(other.get_server_first().encode()).decode())
    assert ours.respond(other.get_server_final().encode()) is None
    assert ours.is_complete


def refusal(user: str, password: str) -> tuple[str, str]:
    """Return the server's first answer without its nonce, and the error at the end."""
    one, client = server(), ScramClient(SHA_256, user, password)
    first = one.respond(client.first())
    final = client.respond(first)
    with pytest.raises(SaslAuthenticationFailed) as error:
        one.respond(final)
    assert one.authenticated is None
    return first.decode().partition(",")[2], str(error.value)


def test_an_unknown_user_is_answered_as_a_wrong_password_is():
    unknown, wrong = refusal("eve", "secret"), refusal("ann", "guess")
    assert unknown[1] == wrong[1]
    assert refusal("eve", "secret") == unknown, "the salt of an unknown user stays the same"
    assert refusal("mallory", "secret")[0] != unknown[0]
    salts = [base64.b64decode(answer.partition("s=")[2].partition(",")[0]) for answer in (unknown[0], wrong[0])]
    assert all(24 <= len(salt) <= 26 and salt.isalnum() for salt in salts)
    assert unknown[0].rpartition(",")[2] == wrong[0].rpartition(",")[2] == "i=4096"


def test_the_work_for_an_unknown_user_is_that_for_a_known_one(monkeypatch):
    calls = []
    for module, name in ((hmac, "digest"), (hmac, "compare_digest"), (hashlib, "new")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, name=name, real=real: calls.append(name) or real(*args))

    def work(user):
        one, client = server(), ScramClient(SHA_256, user, "guess")
        calls.clear()
        first = one.respond(client.first())
        at_first = list(calls)
        final = client.respond(first)
        calls.clear()
        with pytest.raises(SaslAuthenticationFailed):
            one.respond(final)
        return at_first, list(calls)

    assert work("ann") == work("eve")


WRONG_FIRST = [
    b"",
    b"n,,n=,r=abc",
    b"n,,r=abc,n=ann",
    b"p=tls-unique,,n=ann,r=abc",
    b"n,a=bob,n=ann,r=abc",
    b"n,,n=a=n,r=abc",
    b"n,,n=ann,r=",
    b"n,,m=x,n=ann,r=abc",
    b"n,,n=an\0n,r=abc",
    b"n,,n=ann,r=abc,",
]


@for_each("message", WRONG_FIRST)
def test_a_wrong_first_message_is_refused(message):
    with pytest.raises(SaslAuthenticationFailed):
        server().respond(message)


def test_a_name_that_is_not_utf_8_is_answered_as_an_unknown_user():
    assert server().respond(b"n,,n=\xff,r=abc").startswith(b"r=abc")


@given(st.binary(max_size=200))
def test_no_first_message_fails_otherwise(message):
    one = server()
    try:
        answer = one.respond(message)
    except SaslAuthenticationFailed:
        return
    assert answer.startswith(b"r=")
    assert one.authenticated is None


@given(st.binary(max_size=200))
def test_no_final_message_authenticates_without_the_password(message):
    one = server()
    one.respond(b"n,,n=ann,r=abc")
    with pytest.raises(SaslAuthenticationFailed):
        one.respond(message)
    assert one.authenticated is None


@for_each("change", ["c=biws", "r=", "p="])
def test_a_changed_final_message_is_refused(change):
    one, client = server(), ScramClient(SHA_256, "ann", "secret")
    final = client.respond(one.respond(client.first())).decode()
    changed = final.replace(change, {"c=biws": "c=eSws", "r=": "r=A", "p=": "p=AA"}[change], 1)
    with pytest.raises(SaslAuthenticationFailed):
        one.respond(changed.encode())


@for_each(
    "answer", ["r=X,s=YWJj,i=4096", "r={},s=YWJj,i=4096", "r={}x,s=YWJj,i=1", "r={}x,s=YWJj,i=99999999", "e=x", "r={}x"]
)
def test_a_client_refuses_a_wrong_server(answer):
    client = ScramClient(SHA_256, "ann", "secret")
    nonce = client.first().decode().partition("r=")[2]
    with pytest.raises(SaslAuthenticationFailed):
        client.respond(answer.format(nonce).encode())


def test_a_client_refuses_a_server_that_does_not_know_the_password():
    client, one = ScramClient(SHA_256, "ann", "secret"), server()
    client.respond(one.respond(client.first()))
    for final in (b"v=AAAA", b"", b"e=other-error", b"v=" + base64.b64encode(b"x" * 32)):
        with pytest.raises(SaslAuthenticationFailed):
            client.respond(final)
    assert not client.is_complete


@settings(max_examples=examples(20))
@given(NAMES, NAMES)
def test_every_name_and_password_authenticates(user, password):
    credential = make_credential(SHA_256, password)
    one = ScramServer(SHA_256, lambda *key: ScramAccount(credential, Principal("User", key[1])), MADE_UP)
    exchange(ScramClient(SHA_256, user, password), one)
    assert one.authenticated.principal.name == user


def test_no_secret_is_in_a_repr():
    client, one = ScramClient(SHA_256, "ann", "secret"), server()
    client.respond(one.respond(client.first()))
    credential = CREDENTIALS["SCRAM-SHA-256"]
    for shown in map(repr, (client, one, MADE_UP, credential, ScramAccount(credential, ANN))):
        assert "secret" not in shown
        assert repr(credential.stored_key) not in shown
