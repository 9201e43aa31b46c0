from __future__ import annotations

import pytest

from kqueue.security.errors import UnacceptableCredential, UnsupportedSaslMechanism
from kqueue.security.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS
from kqueue.security.scram_validation import (
    SALT_BYTES_MAX,
    USER_NAME_LENGTH_MAX,
    check_iterations,
    check_salt,
    check_salted_password,
    check_user_name,
    mechanism_of_number,
)
from kqueue.tests.tables import for_each


@for_each("iterations", [0, -1, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1, 2**31 - 1])
def test_iterations_are_bounded(iterations: int) -> None:
    with pytest.raises(UnacceptableCredential, match="iterations"):
        check_iterations(iterations)


@for_each("iterations", [ITERATIONS_MIN, ITERATIONS_MAX])
def test_the_bounds_of_iterations_are_accepted(iterations: int) -> None:
    check_iterations(iterations)


@for_each("name", ["", "x" * (USER_NAME_LENGTH_MAX + 1), "a\nb", "a\x00", "\x85", "\ud800"])
def test_bad_user_names_are_refused(name: str) -> None:
    with pytest.raises(UnacceptableCredential, match="Username"):
        check_user_name(name)


@for_each("name", ["ann", "a,b=c/d", "CN=ann,O=x", "Jürgen", "x" * USER_NAME_LENGTH_MAX, "名前"])
def test_other_user_names_are_accepted(name: str) -> None:
    check_user_name(name)


@for_each("salt", [b"", b"x" * (SALT_BYTES_MAX + 1)])
def test_salts_are_bounded(salt: bytes) -> None:
    with pytest.raises(UnacceptableCredential, match="salt"):
        check_salt(salt)


@for_each("salted", [b"", b"x" * 31, b"x" * 64])
def test_a_salted_password_has_the_length_of_its_hash(salted: bytes) -> None:
    with pytest.raises(UnacceptableCredential, match="salted password"):
        check_salted_password(SCRAM_MECHANISMS["SCRAM-SHA-256"], salted)


def test_mechanisms_have_kafkas_numbers() -> None:
    assert [mechanism_of_number(number).name for number in (1, 2)] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    for number in (0, 3, -1):
        with pytest.raises(UnsupportedSaslMechanism):
            mechanism_of_number(number)
