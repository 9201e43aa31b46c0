"""The rules of each handler module against what its handler asks the authorizer, and what it
answers when a rule denies.
"""

from __future__ import annotations

from typing import Any

from kqueue.api.access import Rule
from kqueue.security.operations import AclOperation as Op
from kqueue.security.operations import ResourceType as Type
from kqueue.tests.api.access_requests import (
    ALL_BY_ID,
    ALTERNATIVES,
    ASKING_BY_ID,
    AUTHORIZATION_FAILED,
    BY_ID,
    CODES,
    LEFT_OUT,
    NOT_ANONYMOUS,
    REPORTING,
    ROWS,
    RULES,
    Deciding,
    Row,
    all_but,
    asked_rules,
    codes_in,
    denial_of,
    nothing,
    only,
    request_for,
    world,
)
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

AT_ENDS = [(row, version) for row in ROWS for version in sorted(set(row.versions))]


def world_of(authorizer: Deciding) -> SimulatedClient:
    client = world()
    client.answers_errors = True
    client.sim.broker.security.authorizer = authorizer
    return client


def known_rules(row: Row) -> set[tuple[Op, Type]]:
    own = {(rule.operation, rule.resource_type) for rule in row.access or ()}
    if row.api.module_name in ASKING_BY_ID:
        own.add((Op.DESCRIBE, Type.TOPIC))
    return own | ALTERNATIVES.get(row.api.module_name, set())


def refusals(response: Any) -> set[int]:
    return codes_in(response) & set(AUTHORIZATION_FAILED.values())


def name_of(value: object) -> str:
    return value.api.name if isinstance(value, Row) else str(getattr(value, "operation", value))


def test_every_handler_module_says_what_it_needs() -> None:
    assert [row.api.module_name for row in ROWS if row.access is None] == []


@for_each("row, version", AT_ENDS)
def test_a_client_that_may_nothing_is_refused(row: Row, version: int) -> None:
    authorizer = Deciding(nothing)
    client, module = world_of(authorizer), row.api.module_name
    response = client.ask(request_for(client, module, version), version)
    if not row.access:
        assert (refusals(response), authorizer.asked) == (set(), [])
    elif module in NOT_ANONYMOUS:
        assert codes_in(response) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    elif any(left_out[0] == module for left_out in LEFT_OUT):
        assert codes_in(response) == {0}
    elif module in ALL_BY_ID and version == row.versions[1]:
        assert ErrorCode.UNKNOWN_TOPIC_ID in codes_in(response)
        assert refusals(response) == set()
    elif module == "describe_log_dirs" and version < 3:  # clients take no folder at all for a denial
        assert response.results == []
    else:
        assert refusals(response)
    assert asked_rules(authorizer) <= known_rules(row)


@for_each("row, version", AT_ENDS)
def test_a_client_that_may_what_the_rules_say_is_not_refused(row: Row, version: int) -> None:
    authorizer = Deciding(only(row.access or ()))
    client, module = world_of(authorizer), row.api.module_name
    response = client.ask(request_for(client, module, version), version)
    assert refusals(response) == set()
    if module not in REPORTING:
        assert asked_rules(authorizer) <= known_rules(row)


@for_each("row, rule", RULES)
def test_each_rule_denies_by_itself(row: Row, rule: Rule) -> None:
    denial = denial_of(row, rule)
    client, key = world_of(Deciding(all_but(*denial.denied))), denial.key
    response = client.ask(request_for(client, row.api.module_name, denial.version, **denial.values), denial.version)
    if key in LEFT_OUT:
        assert codes_in(response) == {0}
        assert "'g'" not in str(response)
        assert "'tx'" not in str(response)
    elif key in BY_ID:
        assert ErrorCode.UNKNOWN_TOPIC_ID in codes_in(response)
        assert refusals(response) == set()
    else:
        assert refusals(response) == {CODES.get(key, AUTHORIZATION_FAILED[rule.resource_type])}
