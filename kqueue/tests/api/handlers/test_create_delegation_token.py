from __future__ import annotations

import pytest

from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.security.tokens import token_hmac
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.api.token_client import ANN, BOB, BY_TOKEN, DAY_MS, EVE, create, token_client, visible
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

MAY_CREATE = (AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")


@for_each("version", versions_of("create_delegation_token"))
def test_a_client_creates_a_token_of_its_own(version: int) -> None:
    client = token_client()
    now_ms = client.sim.clock.wall_ms()
    response = create(client, renewers=[EVE], lifetime_ms=2 * DAY_MS, version=version)
    assert (response.error_code, response.principal_type, response.principal_name) == (0, "User", "ann")
    assert (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms) == (
        now_ms, now_ms + DAY_MS, now_ms + 2 * DAY_MS,
    )  # fmt: skip
    assert response.hmac == token_hmac("key", response.token_id)
    assert response.token_requester_principal_name == ("ann" if version >= 3 else "")
    assert visible(client) == visible(client, EVE) == {response.token_id}
    assert visible(client, BOB) == set()


def test_a_token_of_another_user_needs_permission() -> None:
    client = token_client(MAY_CREATE)
    response = create(client, owner=BOB)
    assert (response.error_code, response.principal_name, response.token_requester_principal_name) == (0, "bob", "ann")
    assert visible(client, BOB) == visible(client, ANN) == {response.token_id}
    refused = create(client, owner=EVE)
    assert (refused.error_code, refused.hmac, refused.token_id, refused.expiry_timestamp_ms) == (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, b"", "", -1,
    )  # fmt: skip


@for_each("principal", [ANONYMOUS, BY_TOKEN])
def test_token_authenticated_client_may_not_create_tokens(principal: Principal) -> None:
    client = token_client()
    assert create(client, principal).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_other_refusals() -> None:
    client = token_client(MAY_CREATE)
    group = Principal("Group", "g")
    assert create(client, renewers=[group]).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert create(client, owner=Principal("Group", "bob")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert create(client, renewers=[Principal("User", "x" * 2000)]).error_code == ErrorCode.INVALID_REQUEST
    assert create(client, renewers=[EVE] * 101).error_code == ErrorCode.INVALID_REQUEST
    assert create(token_client(has_key=False)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert visible(client) == set()


def test_a_store_that_fails_or_does_not_answer_is_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FailingStore()
    client = SimulatedClient(sim=Simulation({"delegation.token.secret.key": "key"}, store=store))
    store.failing = True
    assert create(client).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.setattr(client.sim.jobs, "run_all", lambda: 0)
    pending = create(client)
    assert pending is None
