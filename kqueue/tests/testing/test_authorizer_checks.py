"""`check_authorizer` reports each violation of the contract."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from kqueue.security.authorizer import Action, AuthorizerSetup, Client
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.testing import authorizer_checks, check_authorizer
from kqueue.tests.tables import for_each


class Denying:
    def __init__(self, setup: AuthorizerSetup) -> None:
        self.setup = setup

    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        return [False] * len(actions)

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> Any:
        return False


class OneShort(Denying):
    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        return [False] * (len(actions) - 1)


class Numbers(Denying):
    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        return [0] * len(actions)


class NothingOfAny(Denying):
    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> Any:
        return None


class Raising(Denying):
    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        raise RuntimeError("no idea")


class ByPosition(Denying):
    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        return [index == 0 for index in range(len(actions))]


class Slow(Denying):
    def authorize(self, client: Client, actions: Sequence[Action]) -> Any:
        limit_ms = authorizer_checks.ACTION_MS_MAX * len(actions)
        end = time.process_time() + 1.1 * limit_ms / 1000 * (len(actions) == 1000)
        while time.process_time() < end:
            pass
        return [False] * len(actions)


class Stale(StandardAuthorizer):
    def _decisions_of(self, client: Client) -> Any:
        return self._decisions.setdefault(client, {})


class WithoutAcls(Denying):
    uses_acls = True


class Forgetting(StandardAuthorizer):
    def __init__(self, setup: AuthorizerSetup) -> None:
        super().__init__(AuthorizerSetup(setup.acls))


@for_each("factory", [Denying, StandardAuthorizer])
def test_authorizer_that_meets_the_contract_passes(factory: Any) -> None:
    check_authorizer(factory, isolated=False)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (OneShort, "gave 199 answers to 200 actions"),
        (Numbers, "gave 0, expected bools"),
        (NothingOfAny, "gave None, expected a bool"),
        (Raising, "raised RuntimeError: no idea"),
        (ByPosition, "in another order"),
        (Slow, "of processor time"),
        (Stale, "after adding .*: expected True, found False"),
        (WithoutAcls, "after adding .*: expected True, found False"),
        (Forgetting, "a super user was denied"),
        (lambda setup: 3, "which has no authorize"),
    ],
)
def test_broken_contract_is_described(factory: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if factory is Slow:
        monkeypatch.setattr(authorizer_checks, "ACTION_MS_MAX", 0.2)
    with pytest.raises(AssertionError, match=words):
        check_authorizer(factory, isolated=False)
