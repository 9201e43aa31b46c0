from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.security.errors import InvalidPrincipalType, TokenRequestNotAllowed
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.security.token_principals import PRINCIPAL_LENGTH_MAX, RENEWERS_MAX, check_client, check_principals

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")


def test_only_clients_that_authenticated_otherwise_may_use_tokens() -> None:
    check_client(ANN)
    for principal in (ANONYMOUS, Principal("User", "ann", by_token=True)):
        with pytest.raises(TokenRequestNotAllowed):
            check_client(principal)


def test_principals_are_users_with_names_of_bounded_length() -> None:
    check_principals(ANN, [BOB] * RENEWERS_MAX)
    with pytest.raises(InvalidRequest, match="renewers"):
        check_principals(ANN, [BOB] * (RENEWERS_MAX + 1))
    for principal in (Principal("Group", "x"), Principal("", "x")):
        with pytest.raises(InvalidPrincipalType):
            check_principals(ANN, [principal])
    for name in ("", "x" * (PRINCIPAL_LENGTH_MAX + 1)):
        with pytest.raises(InvalidRequest, match="characters"):
            check_principals(Principal("User", name), [])
