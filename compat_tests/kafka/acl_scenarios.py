"""Requests about ACLs, for a Kafka and a kqueue whose clients are super users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.kafka.admin_scenarios import Ask
from compat_tests.waits import look_until
from kqueue.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kqueue.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kqueue.wire.messages.describe_acls import DescribeAclsRequest

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, DENY, ALLOW = 3, 2, 3


def entry(name: str = "orders", kind: int = TOPIC, pattern: int = LITERAL, **fields: Any) -> AclCreation:
    values = {"principal": "User:ann", "host": "*", "operation": READ, "permission_type": ALLOW, **fields}
    return AclCreation(resource_type=kind, resource_name=name, resource_pattern_type=pattern, **values)


def create(ask: Ask, *entries: AclCreation, version: int = 3) -> Any:
    return ask(CreateAclsRequest(creations=list(entries)), version)


def find(ask: Ask, version: int = 3, **fields: Any) -> list[Any]:
    """Error code and entries, sorted: brokers have them in any order."""
    values = {
        "resource_type_filter": ANY,
        "pattern_type_filter": ANY,
        "operation": ANY,
        "permission_type": ANY,
        **fields,
    }
    names = "resource_name_filter", "principal_filter", "host_filter"
    response = ask(DescribeAclsRequest(**{**dict.fromkeys(names), **values}), version)
    rows = [
        (
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        for resource in response.resources
        for row in resource.acls
    ]
    return [response.error_code, *sorted(rows)]


def find_all(ask: Ask, count: int, version: int = 3) -> list[Any]:
    """Do as `find` does, once there are `count` entries: Kafka answers a change before its
    authorizer knows it.
    """
    return look_until(lambda: find(ask, version), lambda rows: len(rows) == 1 + count, f"{count} entries")


def delete(ask: Ask, *filters: dict[str, Any], version: int = 3) -> list[Any]:
    names = "resource_name_filter", "principal_filter", "host_filter"
    values = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    rows = [DeleteAclsFilter(**{**dict.fromkeys(names), **values, **fields}) for fields in filters]
    response = ask(DeleteAclsRequest(filters=rows), version)
    return [
        (
            result.error_code,
            sorted(
                (row.error_code, row.resource_type, row.resource_name, row.pattern_type, row.principal, row.operation)
                for row in result.matching_acls
            ),
        )
        for result in response.filter_results
    ]


def acls_are_created_found_and_deleted(ask: Ask) -> Iterator[Any]:
    delete(ask, {})  # what other tests have left
    yield find_all(ask, 0)
    yield create(ask, entry(), entry("ord", pattern=PREFIXED), entry("*"), entry("kafka-cluster", CLUSTER, operation=7))
    yield create(ask, entry(), entry("g", GROUP, permission_type=DENY, host="10.0.0.7"))
    yield find_all(ask, 5)
    yield find(ask, resource_type_filter=TOPIC, resource_name_filter="orders", pattern_type_filter=MATCH)
    yield find(ask, resource_name_filter="orders", pattern_type_filter=ANY)
    yield find(ask, resource_name_filter="orders", pattern_type_filter=PREFIXED)
    yield find(ask, pattern_type_filter=LITERAL)
    yield find(ask, host_filter="10.0.0.7")
    yield find(ask, principal_filter="User:bob")
    yield find(ask, principal_filter="ann")
    yield delete(ask, {"resource_name_filter": "orders", "pattern_type_filter": MATCH}, {"resource_type_filter": TOPIC})
    yield find_all(ask, 2)
    yield delete(ask, {}, {})
    yield find_all(ask, 0)


def acls_that_are_odd(ask: Ask) -> Iterator[Any]:
    """Without ANY and MATCH, which fail in Kafka with UNKNOWN_SERVER_ERROR for all ACLs of the
    request, and a principal without a name, which it stores.
    """
    for odd in (
        entry(""),
        entry("c", CLUSTER),
        entry("kafka-cluster", CLUSTER, PREFIXED),
        entry(principal="ann"),
        entry(host="nowhere.example"),
        entry("*", pattern=PREFIXED),
        entry(operation=9),
        entry("User:bob", USER, operation=13),
        entry("t", TOKEN, operation=8),
        entry("t", TRANSACTIONAL_ID, operation=15),
    ):
        yield create(ask, odd, entry("valid"))
    yield find(ask)
    yield delete(ask, {})


def empty_requests(ask: Ask) -> Iterator[Any]:
    yield create(ask)
    yield delete(ask)
    yield delete(ask, {"resource_name_filter": "nothing"})


def older_versions(ask: Ask) -> Iterator[Any]:
    delete(ask, {})
    yield find_all(ask, 0)
    yield create(ask, entry(), entry("ord", pattern=PREFIXED), version=1)
    yield find_all(ask, 2, version=1)
    yield find(ask, 2)
    yield delete(ask, {}, version=1)


def no_acls_without_an_authorizer(ask: Ask) -> Iterator[Any]:
    yield create(ask, entry())
    yield find(ask)
    yield delete(ask, {})


SCENARIOS = (acls_are_created_found_and_deleted, acls_that_are_odd, empty_requests, older_versions)
