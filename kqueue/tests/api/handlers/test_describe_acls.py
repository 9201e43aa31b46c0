from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.client.calls.acls import DescribeAcls
from kqueue.security.acls import AclFilter
from kqueue.security.errors import SecurityDisabled
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.tests.api.acl_client import acl_client, create, described
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.security.acl_strategies import acl
from kqueue.tests.tables import for_each

PREFIXED = acl(name="ord", pattern_type=PatternType.PREFIXED)


@for_each("version", [1, 2, 3])
def test_a_filter_finds_acls(version: int) -> None:
    client = acl_client()
    create(client, acl(), PREFIXED, acl(principal="User:bob"), acl(resource_type=ResourceType.GROUP))
    assert len(described(client, version=version)) == 4
    assert described(client, AclFilter(principal="User:bob"), version) == {acl(principal="User:bob")}
    match = AclFilter(ResourceType.TOPIC, "order", PatternType.MATCH)
    assert described(client, match, version) == {PREFIXED}


def test_acls_of_one_pattern_are_one_resource() -> None:
    client = acl_client()
    create(client, acl(), acl(principal="User:bob"), PREFIXED)
    response = client.ask(DescribeAcls(AclFilter()).request(3), 3)
    assert sorted((row.resource_name, len(row.acls)) for row in response.resources) == [("ord", 1), ("orders", 2)]


def test_version_0_knows_literal_patterns_only() -> None:
    client = acl_client()
    create(client, acl(), PREFIXED)
    assert described(client, AclFilter(pattern_type=PatternType.LITERAL), 0) == {acl()}


@for_each(
    "acl_filter",
    [
        AclFilter(resource_type=ResourceType.UNKNOWN),
        AclFilter(pattern_type=PatternType.UNKNOWN),
        AclFilter(operation=AclOperation.UNKNOWN),
        AclFilter(permission=AclPermission.UNKNOWN),
    ],
)
def test_an_unknown_filter_is_refused(acl_filter: AclFilter) -> None:
    with pytest.raises(InvalidRequest):
        acl_client().ask(DescribeAcls(acl_filter).request(3), 3)


def test_without_an_authorizer_there_are_no_acls() -> None:
    with pytest.raises(SecurityDisabled):
        SimulatedClient().ask(DescribeAcls(AclFilter()).request(3), 3)
