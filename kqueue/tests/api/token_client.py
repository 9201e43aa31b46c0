"""Clients of the requests about delegation tokens, as the principals that they authenticated as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kqueue.security.authorizer import Action, Client
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kqueue.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest

ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))
BY_TOKEN = Principal("User", "ann", by_token=True)
DAY_MS = 86_400_000


class Allowing:
    """Allows the listed actions only."""

    def __init__(self, *actions: tuple[AclOperation, ResourceType, str]) -> None:
        self._actions = [Action(*action) for action in actions]

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        return [action in self._actions for action in actions]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        return False


def token_client(*actions: tuple[AclOperation, ResourceType, str], has_key: bool = True) -> SimulatedClient:
    """A client of a broker whose authorizer allows `actions`."""
    client = SimulatedClient({"delegation.token.secret.key": "key"} if has_key else {})
    client.sim.broker.security.authorizer = Allowing(*actions)
    return client


def create(
    client: SimulatedClient,
    by: Principal = ANN,
    *,
    owner: Principal | None = None,
    renewers: Sequence[Principal] = (),
    lifetime_ms: int = -1,
    version: int = 3,
) -> Any:
    """The response of CreateDelegationToken."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    if version >= 3:
        request.owner_principal_type = None if owner is None else owner.type
        request.owner_principal_name = None if owner is None else owner.name
    return client.ask(request, version, principal=by)


def visible(client: SimulatedClient, by: Principal = ANN) -> set[str]:
    """The ids of the tokens that DescribeDelegationToken shows."""
    response = client.ask(DescribeDelegationTokenRequest(owners=None), 3, principal=by)
    assert response.error_code == 0
    return {token.token_id for token in response.tokens}
