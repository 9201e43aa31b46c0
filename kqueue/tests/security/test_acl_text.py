from __future__ import annotations

import pytest
from hypothesis import given

from kqueue.base.errors import InvalidRequest
from kqueue.security.acl_text import EXAMPLE, parse_acls
from kqueue.security.acls import AclBinding
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from kqueue.tests.security.acl_strategies import BINDINGS, acl
from kqueue.tests.tables import for_each


@given(BINDINGS)
def test_the_text_of_an_acl_is_the_acl(binding: AclBinding) -> None:
    assert parse_acls([str(binding)]) == [binding]
    assert parse_acls([binding]) == [binding]


@for_each(
    "line, bindings",
    [
        (EXAMPLE, [acl(), acl(operation=AclOperation.WRITE)]),
        (
            "User:CN=ann, O=x y deny all topic prefixed:eu. from 10.0.0.7",
            [
                acl(
                    principal="User:CN=ann, O=x y",
                    permission=AclPermission.DENY,
                    operation=AclOperation.ALL,
                    name="eu.",
                    pattern_type=PatternType.PREFIXED,
                    host="10.0.0.7",
                )
            ],
        ),
        (
            "User:* allow alter cluster",
            [
                acl(
                    principal="User:*",
                    operation=AclOperation.ALTER,
                    resource_type=ResourceType.CLUSTER,
                    name=CLUSTER_NAME,
                )
            ],
        ),
        ("User:ann allow read group:my group", [acl(resource_type=ResourceType.GROUP, name="my group")]),
        ("User:ann allow read topic:a:b", [acl(name="a:b")]),
    ],
)
def test_a_line_says_what_is_allowed(line: str, bindings: list[AclBinding]) -> None:
    assert parse_acls([line]) == bindings


@for_each(
    "line, words",
    [
        ("", "expected an ACL as"),
        ("User:ann may read topic:orders", "expected an ACL as"),
        ("User:ann allow read topic", "expected an ACL as"),
        ("User:ann allow read topic:", "expected an ACL as"),
        ("User:ann allow reed topic:orders", "did you mean 'read'"),
        ("User:ann allow any topic:orders", "'any' is none of"),
        ("User:ann allow read topics:orders", "did you mean 'topic'"),
        ("User:ann allow read,,write topic:orders", "'' is none of"),
        ("ann allow read topic:orders", "expected a principal as Type:name"),
    ],
)
def test_other_lines_are_refused_with_what_was_expected(line: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_acls([line])
