from __future__ import annotations

import pytest

from kqueue.schema_registry.access.topic_authorizer import ON_CLUSTER, ON_TOPIC, TopicAuthorizer, topic_of
from kqueue.schema_registry.rest.contract import Operation
from kqueue.security.acl_text import parse_acls


def authorizer(*acls: str, super_users: tuple[str, ...] = ()) -> TopicAuthorizer:
    made = TopicAuthorizer(super_users)
    made.use(parse_acls(acls))
    return made


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("orders", "orders"),
        ("a-key-value", "a-key"),
        ("com.acme.Order", "com.acme.Order"),
        ("-value", "-value"),
    ],
)
def test_a_subject_belongs_to_a_topic(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic


@pytest.mark.parametrize("operation", Operation)
def test_each_operation_needs_one_on_the_topic(operation: Operation) -> None:
    name = ON_TOPIC[operation].name.lower()
    decide = authorizer(f"User:ann allow {name} topic:orders")
    assert decide.is_allowed("ann", operation, "orders-value")
    assert decide.is_allowed("ann", operation, ":.ctx:orders-key")
    assert not decide.is_allowed("ann", operation, "other-value")
    assert not decide.is_allowed("bob", operation, "orders-value")
    assert not decide.is_allowed(None, operation, "orders-value")
    others = [one for one in Operation if one is not operation]
    implied = {Operation.DESCRIBE_CONFIGS} if operation is Operation.ALTER_CONFIGS else set()
    assert {one for one in others if decide.is_allowed("ann", one, "orders-value")} == implied


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("subject", [None, ":.ctx:"])
def test_what_is_about_no_subject_needs_an_operation_on_the_cluster(operation: Operation, subject: str | None) -> None:
    decide = authorizer(f"User:ann allow {ON_CLUSTER[operation].name.lower()} cluster")
    assert decide.is_allowed("ann", operation, subject)
    assert not decide.is_allowed("bob", operation, subject)
    assert not authorizer("User:ann allow all topic:*").is_allowed("ann", operation, subject)


def test_a_denial_outweighs_a_prefix_that_is_allowed() -> None:
    decide = authorizer("User:* allow read topic prefixed:or", "User:ann deny read topic:orders")
    assert not decide.is_allowed("ann", Operation.READ, "orders-value")
    assert decide.is_allowed("ann", Operation.READ, "origins-value")
    assert decide.is_allowed("bob", Operation.READ, "orders-value")


def test_super_users_may_do_everything_before_acls_are_known_and_others_nothing() -> None:
    decide = TopicAuthorizer(["root"])
    for operation in Operation:
        assert decide.is_allowed("root", operation, "orders-value")
        assert decide.is_allowed("root", operation, None)
        assert not decide.is_allowed("ann", operation, "orders-value")


def test_without_logins_the_user_is_anonymous() -> None:
    assert authorizer("User:ANONYMOUS allow read topic:orders").is_allowed(None, Operation.READ, "orders-value")
