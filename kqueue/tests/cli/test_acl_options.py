from __future__ import annotations

from typing import Any

import click
import pytest

from kqueue.cli.acl_options import Selection, bindings_of, filters_of
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclFilter
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.tests.tables import for_each


@for_each(
    "flags, lines",
    [
        ({"topic": ["orders"]}, ["User:ann allow all topic:orders"]),
        ({"topic": ["orders"], "operation": ["Read", "Write"]}, ["User:ann allow read,write topic:orders"]),
        ({"topic": ["*"], "allow_host": ["10.0.0.7"]}, ["User:ann allow all topic:* from 10.0.0.7"]),
        (
            {"topic": ["a"], "group": ["a"], "resource_pattern_type": "prefixed", "operation": ["Read"]},
            ["User:ann allow read topic prefixed:a", "User:ann allow read group prefixed:a"],
        ),
        (
            {"cluster": True, "resource_pattern_type": "prefixed", "operation": ["Alter"]},
            ["User:ann allow alter cluster"],
        ),
        ({"topic": ["t"], "producer": True}, ["User:ann allow write,describe,create topic:t"]),
        (
            {"topic": ["t"], "transactional_id": ["x"], "producer": True, "idempotent": True},
            [
                "User:ann allow write,describe,create topic:t",
                "User:ann allow write,describe transactional_id:x",
                "User:ann allow idempotent_write cluster",
            ],
        ),
        (
            {"topic": ["t"], "group": ["g"], "consumer": True},
            ["User:ann allow read,describe topic:t", "User:ann allow read group:g"],
        ),
        (
            {"topic": ["t"], "group": ["g"], "consumer": True, "producer": True},
            ["User:ann allow write,describe,create,read topic:t", "User:ann allow read group:g"],
        ),
        (
            {"user_principal": ["User:bob"], "operation": ["CreateTokens"]},
            ["User:ann allow create_tokens user:User:bob"],
        ),
        ({"delegation_token": ["x"], "operation": ["Describe"]}, ["User:ann allow describe delegation_token:x"]),
    ],
)
def test_flags_are_acls(flags: dict[str, Any], lines: list[str]) -> None:
    selection = Selection(allow_principal=["User:ann"], **flags)
    assert set(bindings_of(selection)) == set(parse_acls(lines))
    assert {tuple(row) for row in filters_of(selection)} == {tuple(row) for row in bindings_of(selection)}


def test_each_principal_and_host_has_its_acl() -> None:
    selection = Selection(
        topic=["t"],
        operation=["Read"],
        allow_principal=["User:ann", "User:bob"],
        deny_principal=["User:eve"],
        deny_host=["10.0.0.7", "10.0.0.8"],
    )
    lines = ["User:ann allow read topic:t", "User:bob allow read topic:t"]
    lines += [f"User:eve deny read topic:t from 10.0.0.{number}" for number in (7, 8)]
    assert set(bindings_of(selection)) == set(parse_acls(lines))


def test_without_principals_filters_find_all_of_the_resources() -> None:
    match = PatternType.MATCH
    assert filters_of(Selection(topic=["t"], cluster=True, resource_pattern_type="match")) == [
        AclFilter(ResourceType.TOPIC, "t", match),
        AclFilter(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL),
    ]
    assert filters_of(Selection(), needs_resource=False) == [AclFilter()]
    (only,) = filters_of(Selection(topic=["t"], operation=["Read"], deny_principal=["User:eve"]))
    assert only[3:] == ("User:eve", "*", AclOperation.READ, AclPermission.DENY)


@for_each(
    "flags, words",
    [
        ({}, "say of which resource"),
        ({"topic": ["t"], "operation": ["ClusterAction"]}, "TOPIC has no operation CLUSTER_ACTION; it has Read"),
        ({"cluster": True, "operation": ["Read"]}, "CLUSTER has no operation READ"),
        ({"topic": ["t"], "resource_pattern_type": "match"}, "a literal name or a prefix"),
        ({"topic": ["t"], "deny_host": ["10.0.0.7"]}, "--deny-host needs --deny-principal"),
        ({"topic": ["t"], "consumer": True}, "--consumer needs --group"),
        ({"group": ["g"], "consumer": True}, "need --topic"),
        ({"topic": ["t"], "group": ["g"], "producer": True}, "--producer has no groups"),
        ({"topic": ["t"], "idempotent": True}, "--idempotent needs --producer"),
        ({"topic": ["t"], "group": ["g"], "consumer": True, "idempotent": True}, "--idempotent needs --producer"),
        ({"topic": ["t"], "producer": True, "operation": ["Read"]}, "leave out --operation"),
        ({"topic": ["t"], "allow_principal": ["ann"]}, "expected a principal as Type:name"),
        ({"topic": [""]}, "the name of a resource is not empty"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        bindings_of(Selection(**{"allow_principal": ["User:ann"], **flags}))
