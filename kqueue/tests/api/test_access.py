"""Tests of `kqueue.api.access` and of the checks of `RequestContext`, over a broker whose
authorizer allows what a test lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.api.access import Applies, Rule, guarded, on_cluster
from kqueue.api.errors import code_of
from kqueue.api.handler_table import ApiHandler, guarded_lookup, load
from kqueue.api.request_context import REFUSALS, RequestContext
from kqueue.broker.access.security import BrokerSecurity
from kqueue.security.authorizer import Action, Client
from kqueue.security.errors import ClusterAuthorizationFailed
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.tests.tables import for_each

ANN = Principal("User", "ann")
ALTER_CLUSTER = Action(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


class Allowing:
    """Allows the listed actions, and keeps who asked."""

    def __init__(self, *actions: Action) -> None:
        self.actions = actions
        self.clients: list[Client] = []

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        self.clients.append(client)
        return [action in self.actions for action in actions]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        return any(action[:2] == (operation, resource_type) for action in self.actions)


def context_with(authorizer: Allowing | None) -> RequestContext:
    broker: Any = SimpleNamespace(security=BrokerSecurity(authorizer))
    return RequestContext(broker, 0, client_host="/10.0.0.7", listener="SASL_SSL", principal=ANN)


def test_without_an_authorizer_everything_is_allowed() -> None:
    context = context_with(None)
    assert context.allows(AclOperation.ALTER, ResourceType.CLUSTER)
    assert list(context.allowed(AclOperation.READ, ResourceType.TOPIC, ["a", "b", "a"])) == ["a", "b"]
    assert context.allows_any(AclOperation.WRITE, ResourceType.TOPIC)
    context.require(AclOperation.ALTER, ResourceType.CLUSTER)


def test_an_authorizer_is_asked_with_the_client_and_each_name_once() -> None:
    authorizer = Allowing(Action(AclOperation.READ, ResourceType.TOPIC, "b"))
    context = context_with(authorizer)
    assert context.allowed(AclOperation.READ, ResourceType.TOPIC, ["a", "b", "a"]) == {"b"}
    assert authorizer.clients == [Client(ANN, "10.0.0.7", "SASL_SSL")]
    assert context.allows_any(AclOperation.READ, ResourceType.TOPIC)
    assert not context.allows_any(AclOperation.WRITE, ResourceType.TOPIC)


@for_each("resource_type", REFUSALS)
def test_each_kind_of_resource_has_its_error(resource_type: ResourceType) -> None:
    with pytest.raises(REFUSALS[resource_type], match="User:ann may not READ") as raised:
        context_with(Allowing()).require(AclOperation.READ, resource_type, "secret-name")
    assert code_of(raised.value).name.endswith("AUTHORIZATION_FAILED")
    assert "secret-name" not in str(raised.value)


def test_rules_of_the_whole_request_are_checked_before_the_handler() -> None:
    handle = guarded(lambda request, context: "done", (on_cluster(AclOperation.ALTER),))
    assert handle(None, context_with(Allowing(ALTER_CLUSTER))) == "done"
    with pytest.raises(ClusterAuthorizationFailed):
        handle(None, context_with(Allowing()))


def test_rules_of_each_resource_are_left_to_the_handler() -> None:
    def plain(request: Any, context: RequestContext) -> str:
        return "done"

    assert guarded(plain, (Rule(AclOperation.READ, ResourceType.TOPIC, Applies.EACH),)) is plain
    assert guarded(plain, ()) is plain


def test_an_api_without_rules_is_refused() -> None:
    with pytest.raises(ClusterAuthorizationFailed, match="no rule"):
        guarded(lambda request, context: "done", None)(None, context_with(Allowing(ALTER_CLUSTER)))


def test_a_guarded_lookup_puts_each_handler_behind_its_rules() -> None:
    def look_up(api_key: int, api_version: int) -> ApiHandler:
        return replace(
            load("api_versions"), handle=lambda request, context: "done", access=(on_cluster(AclOperation.ALTER),)
        )

    served = guarded_lookup(look_up)(18, 0)
    assert served.handle(None, context_with(Allowing(ALTER_CLUSTER))) == "done"
    with pytest.raises(ClusterAuthorizationFailed):
        served.handle(None, context_with(Allowing()))
