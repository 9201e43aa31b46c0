"""Tests of `kqueue.security.principals`."""

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.security.principals import Principal, parse_principal
from kqueue.tests.tables import for_each


@for_each(
    "text, expected",
    [
        ("User:ann", Principal("User", "ann")),
        ("User:CN=ann,O=x:y", Principal("User", "CN=ann,O=x:y")),
        ("Group:ops", Principal("Group", "ops")),
        ("User:*", Principal("User", "*")),
    ],
)
def test_the_first_colon_separates_type_and_name(text: str, expected: Principal) -> None:
    assert parse_principal(text) == expected
    assert str(expected) == text


@for_each("text", ["", "ann", ":ann", "User:", ":"])
def test_a_principal_needs_a_type_and_a_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="User:ann"):
        parse_principal(text)


def test_names_are_compared_exactly_and_the_token_does_not_count() -> None:
    ann = Principal("User", "ann")
    assert ann != Principal("User", "Ann")
    assert ann != Principal("user", "ann")
    assert ann != ("User", "ann", False)
    by_token = Principal("User", "ann", by_token=True)
    assert ann == by_token
    assert len({ann, by_token}) == 1
