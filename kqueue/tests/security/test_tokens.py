from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptData
from kqueue.security.errors import TokenExpired, TokenOwnerMismatch
from kqueue.security.principals import Principal
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential, make_credential
from kqueue.security.tokens import (
    DelegationToken,
    decode_token,
    encode_token,
    end_ms,
    new_token_id,
    token_credentials,
    token_hmac,
)
from kqueue.tests.tables import for_each

ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))
KEY = "the brokers' key"
CREDENTIAL = ScramCredential(b"salt", b"K" * 32, b"K" * 32, 4096)


def token(**changed: object) -> DelegationToken:
    values = {
        "id": "token", "owner": ANN, "requester": EVE, "renewers": (BOB,), "issue_ms": 0, "expiry_ms": 100,
        "max_ms": 500, "credentials": {"SCRAM-SHA-256": CREDENTIAL},
    }  # fmt: skip
    return DelegationToken(**{**values, **changed})  # type: ignore[arg-type]


def test_the_hmac_is_kafkas() -> None:
    assert token_hmac("key", "id") == hmac.new(b"key", b"id", hashlib.sha512).digest()


def test_credentials_are_those_of_the_hmac_in_base64() -> None:
    mac = token_hmac(KEY, "id")
    credentials = token_credentials(mac)
    for name, mechanism in SCRAM_MECHANISMS.items():
        password = base64.b64encode(mac).decode()
        assert credentials[name] == make_credential(mechanism, password, 4096, credentials[name].salt)


def test_ids_are_random_and_no_option_of_a_command() -> None:
    ids = {new_token_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)


def test_a_token_is_read_as_it_was_written() -> None:
    assert decode_token("token", encode_token(token(), KEY), KEY) == token()


@for_each("token_id, key", [("other", KEY), ("token", "other key")])
def test_a_token_of_another_id_or_key_is_refused(token_id: str, key: str) -> None:
    with pytest.raises(CorruptData, match="signature"):
        decode_token(token_id, encode_token(token(), KEY), key)


@given(st.sampled_from(["owner", "requester", "renewers", "issue_ms", "expiry_ms", "max_ms", "credentials"]))
def test_changed_stored_token_has_a_wrong_signature(name: str) -> None:
    stored = json.loads(encode_token(token(), KEY))
    changed = json.loads(
        encode_token(
            token(owner=EVE, requester=ANN, renewers=(), issue_ms=1, expiry_ms=2, max_ms=3, credentials={}), KEY
        )
    )
    stored["token"][name] = changed["token"][name]
    with pytest.raises(CorruptData, match="signature"):
        decode_token("token", json.dumps(stored).encode(), KEY)


@given(st.binary(max_size=60) | st.integers(0, 500).map(lambda size: encode_token(token(), KEY)[:size]))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    refusal = ""
    try:
        assert decode_token("token", value, KEY) == token()
    except CorruptData as error:
        refusal = str(error)
    assert "S0tL" not in refusal


def test_no_secret_is_in_the_text_of_a_token_or_in_its_entry() -> None:
    assert "KKK" not in repr(token())
    mac = token_hmac(KEY, "token")
    entry = encode_token(token(credentials=token_credentials(mac)), KEY)
    for secret in (mac.hex().encode(), base64.b64encode(mac), KEY.encode()):
        assert secret not in entry


def test_the_owner_and_renewers_may_renew_and_the_requester_may_see() -> None:
    token().check_renewer(ANN)
    token().check_renewer(BOB)
    for principal in (EVE, Principal("Group", "ann"), Principal("User", "Ann")):
        with pytest.raises(TokenOwnerMismatch):
            token().check_renewer(principal)
    assert [token().is_of(one) for one in (ANN, BOB, EVE, Principal("User", "x"))] == [True, True, True, False]


@for_each("now_ms, period_ms, expiry_ms", [(0, 50, 50), (100, 300, 400), (100, 9999, 500)])
def test_a_token_is_renewed_up_to_its_maximum(now_ms: int, period_ms: int, expiry_ms: int) -> None:
    assert token().renewed(now_ms, period_ms).expiry_ms == expiry_ms


def test_an_ended_token_is_not_renewed() -> None:
    assert not token().is_expired(100)
    assert token().is_expired(101)
    assert token(max_ms=50).is_expired(51)
    with pytest.raises(TokenExpired):
        token().renewed(101, 1)


def test_times_end_where_messages_do() -> None:
    assert end_ms(5, 2**63 - 1) == 2**63 - 1
