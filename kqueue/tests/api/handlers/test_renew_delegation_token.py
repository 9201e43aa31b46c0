from __future__ import annotations

from typing import Any

from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.api.token_client import ANN, BOB, BY_TOKEN, DAY_MS, EVE, create, token_client
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.renew_delegation_token import RenewDelegationTokenRequest


def renew(client: SimulatedClient, mac: bytes, by: Principal = ANN, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms), version, principal=by)


@for_each("version", versions_of("renew_delegation_token"))
def test_a_token_is_renewed(version: int) -> None:
    client = token_client()
    token = create(client, renewers=[BOB])
    client.sim.advance(1000)
    response = renew(client, token.hmac, BOB, version=version)
    assert (response.error_code, response.expiry_timestamp_ms) == (0, token.issue_timestamp_ms + DAY_MS + 1000)
    assert renew(client, token.hmac, period_ms=5).expiry_timestamp_ms == token.issue_timestamp_ms + 1005


def test_refusals() -> None:
    client = token_client()
    token = create(client)
    for by, mac, code in (
        (EVE, token.hmac, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (BY_TOKEN, token.hmac, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ANONYMOUS, token.hmac, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ANN, b"", ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (ANN, bytes(64), ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
    ):
        response = renew(client, mac, by)
        assert (response.error_code, response.expiry_timestamp_ms) == (code, -1)
    assert renew(token_client(has_key=False), b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_an_ended_token_stays_so() -> None:
    client = token_client()
    token = create(client, lifetime_ms=10)
    client.sim.advance(11)
    assert renew(client, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
