"""Tests of `kqueue.security.authorizer`: an authorizer that fails denies."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from kqueue.security.authorizer import Action, Client, FailClosedAuthorizer
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import ANONYMOUS

CLIENT = Client(ANONYMOUS, "127.0.0.1", "PLAINTEXT")
ACTIONS = [Action(AclOperation.READ, ResourceType.TOPIC, name) for name in ("a", "b")]


class Scripted:
    """Answers what it is given, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


def test_decisions_pass_through_in_order() -> None:
    assert FailClosedAuthorizer(Scripted([True, False])).authorize(CLIENT, ACTIONS) == [True, False]
    assert FailClosedAuthorizer(Scripted(True)).authorize_any(CLIENT, AclOperation.READ, ResourceType.TOPIC)


@pytest.mark.parametrize("answer", [[True], [True] * 3, [], None, ["yes", 1], RuntimeError("broken")])
def test_any_other_answer_denies_all(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert FailClosedAuthorizer(Scripted(answer)).authorize(CLIENT, ACTIONS) == [False, False]


@pytest.mark.parametrize("answer", [1, "yes", None, RuntimeError("broken")])
def test_any_other_answer_about_all_resources_denies(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert not FailClosedAuthorizer(Scripted(answer)).authorize_any(CLIENT, AclOperation.READ, ResourceType.TOPIC)
