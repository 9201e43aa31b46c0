"""Tests of `kqueue.Broker(acls=...)`."""

from __future__ import annotations

import pytest

import kqueue
from kqueue.base.errors import InvalidRequest
from kqueue.broker.access.acls import stored_form
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclBinding
from kqueue.security.authorizer import Action, Client
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.tests.security.acl_strategies import acl

LINES = ["User:ann allow read,write topic:orders", "User:ANONYMOUS allow alter,describe cluster"]


def known(broker: kqueue.Broker) -> set[AclBinding]:
    return set(broker._server.broker.security.acls.index)


def may_read(broker: kqueue.Broker, name: str) -> bool:
    authorizer = broker._server.broker.security.authorizer
    assert authorizer is not None
    client = Client(Principal("User", name), "127.0.0.1", "PLAINTEXT")
    return authorizer.authorize(client, [Action(AclOperation.READ, ResourceType.TOPIC, "orders")])[0]


def test_a_broker_has_its_acls_at_every_start_and_after_a_reset() -> None:
    with kqueue.Broker(acls=[*LINES, acl(principal="User:bob")]) as broker:
        expected = {*parse_acls(LINES), acl(principal="User:bob")}
        assert known(broker) == expected
        assert [may_read(broker, name) for name in ("ann", "bob", "eve")] == [True, True, False]
        created = broker._call(
            lambda: broker._server.result(broker._server.broker.security.acls.store(stored_form(acl(name="*"))))
        )
        assert created is None
        broker.restart()
        assert known(broker) == {*expected, acl(name="*")}
        broker.reset()
        assert known(broker) == expected


def test_without_acls_there_is_no_authorizer() -> None:
    with kqueue.Broker() as broker:
        assert broker._server.broker.security.authorizer is None


def test_settings_may_name_another_authorizer() -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with kqueue.Broker(acls=LINES, settings={**settings, "super.users": "User:eve"}) as broker:
        assert [may_read(broker, name) for name in ("ann", "eve", "bob")] == [True, True, False]


def test_a_mistake_in_an_acl_is_found_before_the_start() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'read'"):
        kqueue.Broker(acls=["User:ann allow reed topic:orders"])
