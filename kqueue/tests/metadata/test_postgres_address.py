"""Addresses of PostgreSQL stores, and what is refused without showing a password."""

from __future__ import annotations

import pytest

from kqueue.metadata.postgres_address import ADDRESS_LENGTH_MAX, parse_postgres_address
from kqueue.tests.tables import for_each


@for_each(
    "text, schema, shown",
    [
        ("postgresql://u@h/d", "kqueue", "h:5432/d"),
        ("postgres://h:1,i:2/d?schema=two", "two", "h:1,i:2/d"),
        ("postgresql://[::1]:3/d?sslmode=require&schema=a_1", "a_1", "::1:3/d"),
        ("postgresql:///d?host=/run/postgresql", "kqueue", "/run/postgresql:5432/d"),
        ("postgresql://", "kqueue", "the default socket:5432/"),
    ],
)
def test_addresses(text: str, schema: str, shown: str) -> None:
    address = parse_postgres_address(text)
    assert (address.schema, address.shown) == (schema, shown)
    assert "schema" not in address.parameters


def test_parameters_of_libpq_are_kept_and_a_server_that_can_be_written_is_asked_for() -> None:
    parameters = parse_postgres_address("postgresql://h/d?sslmode=verify-full&connect_timeout=3").parameters
    assert parameters["sslmode"] == "verify-full"
    assert parameters["connect_timeout"] == "3"
    assert parameters["target_session_attrs"] == "read-write"


@for_each(
    "text",
    [
        "postgresql://u:secret@h/d",
        "postgresql://u:sec/secret@h/d",
        "postgresql://u:%zzsecret@h/d",
        "postgresql://h/d?password=secret",
        "postgresql://h/d?sslmode=require&sslPassword=secret",
        "postgresql://h/d?pass%77ord=secret",
    ],
)
def test_an_address_with_a_password_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"kqueue\.postgres\.password") as caught:
        parse_postgres_address(text)
    assert "secret" not in str(caught.value)


@for_each(
    "text, message",
    [
        ("", "expected postgresql://"),
        ("postgresql:u:secret@h", "expected postgresql://"),
        ("postgresql://h/d?colour=red", "colour"),
        ("postgresql://h/d?schema=Two", "no name for kqueue's schema"),
        ("postgresql://h/d?schema=", "no name for kqueue's schema"),
        ("postgresql://h/d?schema=pg_two", "no name for kqueue's schema"),
        (f"postgresql://h/d?schema={'a' * 41}", "no name for kqueue's schema"),
        ("postgresql://h/d?schema=a;drop", "no name for kqueue's schema"),
        ("postgresql://h/d?target_session_attrs=any", "has to be written to"),
        ("postgresql://" + "h" * ADDRESS_LENGTH_MAX, "at most 4096 characters"),
    ],
)
def test_no_addresses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_postgres_address(text)
    assert "secret" not in str(caught.value)
