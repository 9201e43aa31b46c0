"""The principals that may ask for delegation tokens, and those that a token may name."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.errors import InvalidRequest
from kqueue.security.errors import InvalidPrincipalType, TokenRequestNotAllowed
from kqueue.security.principals import ANONYMOUS, USER_TYPE, Principal

PRINCIPAL_LENGTH_MAX = 1024
"""Characters of the name of an owner or a renewer."""
RENEWERS_MAX = 100


def check_client(principal: Principal) -> None:
    """Raise TokenRequestNotAllowed for a client that may use no request about tokens."""
    if principal == ANONYMOUS:
        raise TokenRequestNotAllowed("delegation tokens are for clients that authenticated")
    if principal.by_token:
        raise TokenRequestNotAllowed("a client that authenticated by a delegation token may not use tokens' requests")


def check_principals(owner: Principal, renewers: Sequence[Principal]) -> None:
    """Raise InvalidPrincipalType, InvalidRequest for principals that a token may not name."""
    if len(renewers) > RENEWERS_MAX:
        raise InvalidRequest(f"a token has at most {RENEWERS_MAX} renewers, found {len(renewers)}")
    for principal in (owner, *renewers):
        if principal.type != USER_TYPE:
            raise InvalidPrincipalType(f"expected principals of type {USER_TYPE}")
        if not 0 < len(principal.name) <= PRINCIPAL_LENGTH_MAX:
            raise InvalidRequest(f"the name of a principal has from 1 to {PRINCIPAL_LENGTH_MAX} characters")
