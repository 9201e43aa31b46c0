from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.scram_credentials import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of_salted,
    decode_credential,
    encode_credential,
    make_credential,
    salted_password,
)

SHA256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
both = pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda mechanism: mechanism.name)


def test_keys_are_those_of_the_rfc() -> None:
    """RFC 7677, section 3: the server's signature of its exchange needs this server key."""
    credential = make_credential(SHA256, "pencil", 4096, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert base64.b64encode(credential.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(credential.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@both
def test_scramp_makes_the_same_keys(mechanism: ScramMechanism) -> None:
    scramp = pytest.importorskip("scramp")
    salt = bytes(range(20))
    theirs = scramp.ScramMechanism(mechanism.name).make_auth_info("secret", iteration_count=5000, salt=salt)
    ours = make_credential(mechanism, "secret", 5000, salt)
    assert (ours.salt, ours.stored_key, ours.server_key, ours.iterations) == tuple(theirs)


def test_each_credential_has_its_own_salt() -> None:
    assert make_credential(SHA256, "x").salt != make_credential(SHA256, "x").salt


@both
def test_a_password_salted_elsewhere_gives_the_same_credential(mechanism: ScramMechanism) -> None:
    salted = salted_password(mechanism, "ä secret".encode(), b"salt", ITERATIONS_MIN)
    assert credential_of_salted(mechanism, salted, b"salt", ITERATIONS_MIN) == make_credential(
        mechanism, "ä secret", ITERATIONS_MIN, b"salt"
    )


@both
def test_a_credential_is_read_as_it_was_written(mechanism: ScramMechanism) -> None:
    credential = make_credential(mechanism, "x")
    assert decode_credential(encode_credential(mechanism, credential)) == (mechanism, credential)


def test_no_key_is_in_the_text_of_a_credential() -> None:
    credential = ScramCredential(b"SALT", b"STORED", b"SERVER", 4096)
    for text in (repr(credential), str(credential), f"{[credential]}"):
        assert not any(word in text for word in ("SALT", "STORED", "SERVER")), text


@given(st.integers(0, 400), st.characters(max_codepoint=127))
def test_a_damaged_credential_is_refused_without_its_content(position: int, character: str) -> None:
    text = encode_credential(SHA256, credential_of_salted(SHA256, b"x" * 32, b"salt", 4096))
    stored_key = text.split("$")[2].partition(":")[0]
    position %= len(text)
    damaged = text[:position] + character + text[position + 1 :]
    refusal = None
    try:
        mechanism, read = decode_credential(damaged)
    except ValueError as error:
        refusal = str(error)
    else:
        assert (mechanism, len(read.stored_key)) == (SHA256, 32)  # another valid value, such as another salt
    assert stored_key not in (refusal or "")
