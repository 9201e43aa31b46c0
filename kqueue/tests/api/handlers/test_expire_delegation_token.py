from __future__ import annotations

from typing import Any

from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.api.token_client import ANN, BOB, BY_TOKEN, EVE, create, token_client, visible
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest


def expire(client: SimulatedClient, mac: bytes, by: Principal = ANN, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms), version, principal=by)


@for_each("version", versions_of("expire_delegation_token"))
def test_a_token_is_ended(version: int) -> None:
    client = token_client()
    token = create(client, renewers=[BOB])
    later = expire(client, token.hmac, BOB, 50, version)
    assert (later.error_code, later.expiry_timestamp_ms) == (0, token.issue_timestamp_ms + 50)
    assert visible(client) == {token.token_id}
    at_once = expire(client, token.hmac, version=version)
    assert (at_once.error_code, at_once.expiry_timestamp_ms) == (0, -1)
    assert visible(client) == set()


def test_refusals() -> None:
    client = token_client()
    token = create(client)
    for by, mac, code in (
        (EVE, token.hmac, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (BY_TOKEN, token.hmac, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ANONYMOUS, token.hmac, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ANN, bytes(64), ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
    ):
        response = expire(client, mac, by)
        assert (response.error_code, response.expiry_timestamp_ms) == (code, -1)
    assert expire(token_client(has_key=False), b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert visible(client) == {token.token_id}
