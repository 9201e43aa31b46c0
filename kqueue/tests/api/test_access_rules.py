"""The rules of each handler module against what its handler asks the authorizer, and what it
answers when a rule denies.
"""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.access import Rule
from kqueue.security.operations import AclOperation as Op
from kqueue.security.operations import ResourceType as Type
from kqueue.tests.api.access_requests import (
    AUTHORIZATION_FAILED,
    Deciding,
    all_but,
    asked_rules,
    codes_in,
    nothing,
    only,
    request_for,
    world,
)
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.error_codes import ErrorCode

Row = handler_table.ApiHandler
ROWS = handler_table.all_handlers()
AT_ENDS = [(row, version) for row in ROWS for version in sorted(set(row.versions))]
ALTERNATIVES = {
    "create_topics": {(Op.CREATE, Type.CLUSTER)},
    "delete_topics": {(Op.DELETE, Type.CLUSTER)},
    "init_producer_id": {(Op.WRITE, Type.TOPIC)},
    "list_groups": {(Op.DESCRIBE, Type.CLUSTER)},
    "metadata": {(Op.CREATE, Type.CLUSTER)},
    "offset_for_leader_epoch": {(Op.CLUSTER_ACTION, Type.CLUSTER)},
    "write_txn_markers": {(Op.CLUSTER_ACTION, Type.CLUSTER)},
}
"""What a handler also asks, as the notes of its rules say: `or CREATE of the cluster`."""
ASKING_BY_ID = {"fetch", "offset_commit", "produce", "share_acknowledge", "share_fetch"}
"""They ask of a topic that is denied whether the client may at least describe it."""
REPORTING = {"describe_cluster", "describe_topic_partitions"}
"""Their responses say what else the client may do."""
LEFT_OUT = {
    ("describe_cluster", Op.DESCRIBE, Type.CLUSTER),
    ("list_groups", Op.DESCRIBE, Type.GROUP),
    ("list_transactions", Op.DESCRIBE, Type.TRANSACTIONAL_ID),
}
"""A resource that is denied is left out, without an error."""
BY_ID = {("metadata", Op.DESCRIBE, Type.TOPIC), ("offset_fetch", Op.DESCRIBE, Type.TOPIC)}
"""The newest version knows topics by their ids: a topic that may not be described has none."""
ALL_BY_ID = {"fetch", "metadata"}
"""APIs with nothing but topics, which have ids in the newest version."""
GROUP_CONFIG = {"resource_type": 32, "resource_name": "g"}
BROKER_CONFIG = {"resource_type": 4, "resource_name": "0"}
FIELDS: dict[tuple[str, Op, Type], dict[str, Any]] = {
    ("alter_configs", Op.ALTER_CONFIGS, Type.CLUSTER): BROKER_CONFIG,
    ("alter_configs", Op.ALTER_CONFIGS, Type.GROUP): GROUP_CONFIG,
    ("create_topics", Op.CREATE, Type.TOPIC): {"name": "new"},
    ("create_topics", Op.DESCRIBE_CONFIGS, Type.TOPIC): {"name": "new", "assignments": [], "configs": []},
    ("describe_configs", Op.DESCRIBE_CONFIGS, Type.CLUSTER): BROKER_CONFIG,
    ("describe_configs", Op.DESCRIBE_CONFIGS, Type.GROUP): GROUP_CONFIG,
    ("fetch", Op.CLUSTER_ACTION, Type.CLUSTER): {"replica_id": 1},
    ("find_coordinator", Op.CLUSTER_ACTION, Type.CLUSTER): {"key_type": 2},
    ("find_coordinator", Op.DESCRIBE, Type.TRANSACTIONAL_ID): {"key_type": 1},
    ("incremental_alter_configs", Op.ALTER_CONFIGS, Type.CLUSTER): BROKER_CONFIG,
    ("incremental_alter_configs", Op.ALTER_CONFIGS, Type.GROUP): GROUP_CONFIG,
    ("init_producer_id", Op.IDEMPOTENT_WRITE, Type.CLUSTER): {"transactional_id": None},
    ("metadata", Op.CREATE, Type.TOPIC): {
        "name": "new", "topic_id": bytes(16), "allow_auto_topic_creation": True
    },
}  # fmt: skip
"""Rules that hold for some requests only: with which fields."""
VERSIONS_OF_RULES = {
    ("add_partitions_to_txn", Op.WRITE, Type.TOPIC): 3,
    ("add_partitions_to_txn", Op.WRITE, Type.TRANSACTIONAL_ID): 3,
}
"""Rules that do not hold for the newest version."""
CODES = {("fetch", Op.CLUSTER_ACTION, Type.CLUSTER): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Denials with another error than that of their kind of resource, as in Kafka."""
OTHER_TESTS = {
    ("alter_share_group_offsets", Op.READ, Type.TOPIC),
    ("consumer_group_describe", Op.DESCRIBE, Type.TOPIC),
    ("delete_share_group_offsets", Op.READ, Type.TOPIC),
    ("describe_share_group_offsets", Op.DESCRIBE, Type.TOPIC),
    ("describe_transactions", Op.DESCRIBE, Type.TOPIC),
    ("init_producer_id", Op.TWO_PHASE_COMMIT, Type.TRANSACTIONAL_ID),
    ("metadata", Op.DESCRIBE, Type.CLUSTER),
    ("share_acknowledge", Op.READ, Type.TOPIC),
    ("share_fetch", Op.READ, Type.TOPIC),
    ("share_group_describe", Op.DESCRIBE, Type.TOPIC),
    ("streams_group_describe", Op.DESCRIBE, Type.TOPIC),
    ("streams_group_heartbeat", Op.CREATE, Type.TOPIC),
    ("streams_group_heartbeat", Op.DESCRIBE, Type.TOPIC),
}
"""Rules whose requests need a world of their own: see `test_hidden_topics`."""
RULES = [
    (row, rule)
    for row in ROWS
    for rule in row.access or ()
    if (row.api.module_name, rule.operation, rule.resource_type) not in OTHER_TESTS
]


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


@pytest.mark.parametrize(("row", "version"), AT_ENDS, ids=name_of)
def test_a_client_that_may_nothing_is_refused(row: Row, version: int) -> None:
    authorizer = Deciding(nothing)
    client, module = world_of(authorizer), row.api.module_name
    response = client.ask(request_for(client, module, version), version)
    if not row.access:
        assert (refusals(response), authorizer.asked) == (set(), [])
    elif any(left_out[0] == module for left_out in LEFT_OUT):
        assert codes_in(response) == {0}
    elif module in ALL_BY_ID and version == row.versions[1]:
        assert ErrorCode.UNKNOWN_TOPIC_ID in codes_in(response)
        assert refusals(response) == set()
    else:
        assert refusals(response)
    assert asked_rules(authorizer) <= known_rules(row)


@pytest.mark.parametrize(("row", "version"), AT_ENDS, ids=name_of)
def test_a_client_that_may_what_the_rules_say_is_not_refused(row: Row, version: int) -> None:
    authorizer = Deciding(only(row.access or ()))
    client, module = world_of(authorizer), row.api.module_name
    response = client.ask(request_for(client, module, version), version)
    assert refusals(response) == set()
    if module not in REPORTING:
        assert asked_rules(authorizer) <= known_rules(row)


@pytest.mark.parametrize(("row", "rule"), RULES, ids=name_of)
def test_each_rule_denies_by_itself(row: Row, rule: Rule) -> None:
    module = row.api.module_name
    key = module, rule.operation, rule.resource_type
    version = VERSIONS_OF_RULES.get(key, row.versions[1])
    authorizer = Deciding(all_but(key[1:], *ALTERNATIVES.get(module, ())))
    client = world_of(authorizer)
    response = client.ask(request_for(client, module, version, **FIELDS.get(key, {})), version)
    if key in LEFT_OUT:
        assert codes_in(response) == {0}
        assert "'g'" not in str(response)
        assert "'tx'" not in str(response)
    elif key in BY_ID:
        assert ErrorCode.UNKNOWN_TOPIC_ID in codes_in(response)
        assert refusals(response) == set()
    else:
        assert refusals(response) == {CODES.get(key, AUTHORIZATION_FAILED[rule.resource_type])}
