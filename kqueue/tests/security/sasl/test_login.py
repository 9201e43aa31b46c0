"""Logins of clients, from JAAS texts."""

from __future__ import annotations

import pickle

import pytest

from kqueue.base.errors import SettingError
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kqueue.security.sasl.login import SaslLogin, checked_mechanism, login_of
from kqueue.security.sasl.plain import PlainClient
from kqueue.security.sasl.scram import ScramClient


def login(mechanism: str, text: str) -> SaslLogin:
    return login_of(mechanism, parse_jaas(text, "sasl.jaas.config"), "sasl.jaas.config")


def test_options_say_user_and_password() -> None:
    plain = login("PLAIN", f'{PLAIN_MODULE} required username="ann" password="secret";')
    assert plain == SaslLogin("PLAIN", "ann", "secret")
    assert isinstance(plain.begin(), PlainClient)
    assert plain.begin().first() == b"\0ann\0secret"
    token = login("SCRAM-SHA-256", f'{SCRAM_MODULE} required username="id" password="hmac" tokenauth="true";')
    assert token.by_token
    begun = token.begin()
    assert isinstance(begun, ScramClient)
    assert b"tokenauth=true" in begun.first()
    assert pickle.loads(pickle.dumps(token)) == token


def test_no_message_shows_the_password() -> None:
    text = f'{PLAIN_MODULE} required user_ann="secret";'
    with pytest.raises(SettingError, match="expected the options username") as raised:
        login("PLAIN", text)
    assert "secret" not in str(raised.value)
    with pytest.raises(SettingError, match=r"scram\.ScramLoginModule"):
        login("SCRAM-SHA-512", f'{PLAIN_MODULE} required username="ann" password="secret";')
    assert "secret" not in repr(SaslLogin("PLAIN", "ann", "secret"))


def test_mechanisms_are_checked() -> None:
    assert checked_mechanism("scram-sha-512", "sasl.mechanism") == "SCRAM-SHA-512"
    with pytest.raises(SettingError, match="sasl.mechanism=GSSAPI: expected one of PLAIN"):
        checked_mechanism("GSSAPI", "sasl.mechanism")
