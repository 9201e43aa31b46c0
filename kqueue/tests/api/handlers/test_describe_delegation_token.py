from __future__ import annotations

from typing import Any

import pytest

from kqueue.api.handlers.describe_delegation_token import OWNERS_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.api.token_client import ANN, BOB, BY_TOKEN, EVE, Allowing, create, token_client, visible
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)


def describe(client: SimulatedClient, by: Principal, owners: list[Principal] | None, version: int = 3) -> Any:
    rows = owners and [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners]
    return client.ask(DescribeDelegationTokenRequest(owners=rows), version, principal=by)


@for_each("version", versions_of("describe_delegation_token"))
def test_a_token_is_described(version: int) -> None:
    client = token_client()
    created = create(client, renewers=[BOB])
    [token] = describe(client, ANN, None, version).tokens
    assert (token.principal_type, token.principal_name, token.token_id, token.hmac) == (
        "User", "ann", created.token_id, created.hmac,
    )  # fmt: skip
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (
        created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms,
    )  # fmt: skip
    assert [(one.principal_type, one.principal_name) for one in token.renewers] == [("User", "bob")]
    assert token.token_requester_principal_name == ("ann" if version >= 3 else "")


def test_owners_filter_and_an_empty_list_is_none() -> None:
    client = token_client()
    mine, bobs = create(client).token_id, create(client, BOB, renewers=[ANN]).token_id
    shown = [
        {row.token_id for row in describe(client, ANN, owners).tokens} for owners in (None, [], [ANN], [BOB], [EVE])
    ]
    assert shown == [{mine, bobs}, set(), {mine}, {bobs}, set()]


def test_tokens_of_others_need_permission() -> None:
    client = token_client()
    mine, more = create(client).token_id, create(client).token_id
    assert visible(client, EVE) == set()
    client.sim.broker.security.authorizer = Allowing((AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, mine))
    assert visible(client, EVE) == {mine}
    client.sim.broker.security.authorizer = Allowing((AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:ann"))
    assert visible(client, EVE) == {mine, more}


@for_each("principal", [ANONYMOUS, BY_TOKEN])
def test_token_authenticated_client_sees_no_tokens(principal: Principal) -> None:
    client = token_client()
    create(client)
    response = describe(client, principal, None)
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])


def test_other_refusals() -> None:
    assert describe(token_client(has_key=False), ANN, None).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    with pytest.raises(InvalidRequest, match="at most"):
        describe(token_client(), ANN, [ANN] * (OWNERS_MAX + 1))
