"""A well-formed request for every API, derived from its schema: about topic `t`, group `g` and
transactional id `tx`; and authorizers that allow a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kqueue.api import handler_table
from kqueue.api.access import Rule
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.schema.field_types import ArrayType, StructType
from kqueue.schema.structs import schema_of
from kqueue.security.authorizer import Action, Client
from kqueue.security.operations import CLUSTER_NAME
from kqueue.security.operations import AclOperation as Op
from kqueue.security.operations import ResourceType as Type
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode

NAMES = {
    Type.TOPIC: "t",
    Type.GROUP: "g",
    Type.TRANSACTIONAL_ID: "tx",
    Type.CLUSTER: CLUSTER_NAME,
    Type.DELEGATION_TOKEN: "token",
    Type.USER: "User:ann",
}
AUTHORIZATION_FAILED = {
    Type.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Type.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Type.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Type.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
VALUES: dict[str, Any] = {
    "name": "t",
    "topic": "t",
    "topic_name": "t",
    "topic_names": ["t"],
    "subscribed_topic_names": ["t"],
    "resource_name": "t",
    "resource_type": 2,
    "group_id": "g",
    "group_ids": ["g"],
    "groups_names": ["g"],
    "key": "g",
    "coordinator_keys": ["g"],
    "transactional_id": "tx",
    "transactional_ids": ["tx"],
    "v3_and_below_transactional_id": "tx",
    "member_id": "m",
    "max_bytes": 1000,
    "partition_max_bytes": 1000,
    "replica_id": -1,
    "replicas": [0],
    "records": batch(b"a", producer_id=0, epoch=0, base_sequence=0, transactional=True),
    "protocol_type": "consumer",
    "protocol_name": "range",
    "timeout_ms": 1000,
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
    "endpoint_type": 1,
    "partition_index": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "session_epoch": -1,
    "acks": -1,
    "include_cluster_authorized_operations": True,
}
"""Values of fields, by name. Others have their default; lists have one element."""
OF_APIS: dict[str, dict[str, Any]] = {"delete_topics": {"topic_id": bytes(16)}}
"""Further values, of one API."""
NULL = {"cursor", "instance_id", "group_instance_id", "cluster_id", "rack_id", "user_endpoint", "client_tags",
        "subscribed_topic_regex", "server_assignor", "states_filter", "types_filter", "state_filters",
        "producer_id_filters", "transactional_id_pattern", "resource_types", "forgotten_topics_data",
        "assignments", "task_offsets", "task_end_offsets", "configuration_keys", "source_topic_regex"}  # fmt: skip
"""Fields that are null, or empty."""


Row = handler_table.ApiHandler
ROWS = handler_table.all_handlers()
ALTERNATIVES = {
    "create_topics": {(Op.CREATE, Type.CLUSTER)},
    "delete_topics": {(Op.DELETE, Type.CLUSTER)},
    "init_producer_id": {(Op.WRITE, Type.TOPIC)},
    "list_groups": {(Op.DESCRIBE, Type.CLUSTER)},
    "metadata": {(Op.CREATE, Type.CLUSTER)},
    "offset_for_leader_epoch": {(Op.CLUSTER_ACTION, Type.CLUSTER)},
    "write_txn_markers": {(Op.CLUSTER_ACTION, Type.CLUSTER)},
}
"""The further rights that a handler asks for, as the notes of its rules say: `or CREATE of the
cluster`.
"""
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
BROKER_CONFIG = {"resource_type": 4, "resource_name": ""}
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
    ("create_delegation_token", Op.CREATE_TOKENS, Type.USER),
    ("delete_share_group_offsets", Op.READ, Type.TOPIC),
    ("describe_delegation_token", Op.DESCRIBE, Type.DELEGATION_TOKEN),
    ("describe_delegation_token", Op.DESCRIBE_TOKENS, Type.USER),
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
"""Rules whose requests need a world of their own: `test_hidden_topics`, the handlers' tests."""
NOT_ANONYMOUS = {"create_delegation_token", "describe_delegation_token"}
"""For clients that authenticated only, whatever they may do."""
RULES = [
    (row, rule)
    for row in ROWS
    for rule in row.access or ()
    if (row.api.module_name, rule.operation, rule.resource_type) not in OTHER_TESTS
]


class Denial(NamedTuple):
    """A request that fails where only one rule denies. `key`: API, operation and kind of resource.

    `denied`: what has to be denied, with what else would allow the same. `values`: of
    `build_request`.
    """

    key: tuple[str, Op, Type]
    version: int
    values: dict[str, Any]
    denied: list[tuple[Op, Type]]


def denial_of(row: Row, rule: Rule) -> Denial:
    """Return how to see that a rule denies."""
    key = row.api.module_name, rule.operation, rule.resource_type
    version = VERSIONS_OF_RULES.get(key, row.versions[1])
    return Denial(key, version, FIELDS.get(key, {}), [key[1:], *ALTERNATIVES.get(key[0], ())])


class Deciding:
    """Allows what `allows` says, and keeps what it was asked; of anything too."""

    def __init__(self, allows: Callable[[Action], bool]) -> None:
        self.allows = allows
        self.asked: list[Action] = []

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        self.asked += actions
        return [self.allows(action) for action in actions]

    def authorize_any(self, client: Client, operation: Op, resource_type: Type) -> bool:
        return self.allows(Action(operation, resource_type, "*"))


def nothing(action: Action) -> bool:
    return False


def all_but(*denied: tuple[Op, Type]) -> Callable[[Action], bool]:
    return lambda action: action[:2] not in denied


def only(rules: Sequence[Rule]) -> Callable[[Action], bool]:
    """Allow what the rules need of the resources of `NAMES`."""
    needed = {Action(rule.operation, rule.resource_type, NAMES[rule.resource_type]) for rule in rules}
    return lambda action: action in needed


def world() -> SimulatedClient:
    """A broker with the topic `t`, and the group `g` that has an offset of it."""
    client = SimulatedClient({"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1})
    client.sim.topic("t", 2)
    client.produce("t", batch(b"a"))
    client.ask(request_for(client, "offset_commit", 8, member_id="", generation_id_or_member_epoch=-1), 8)
    client.ask(request_for(client, "init_producer_id", 4, transaction_timeout_ms=60_000), 4)
    assert client.sim.broker.topics.find(OFFSETS_TOPIC) is not None
    return client


def request_for(client: SimulatedClient, module: str, version: int, **values: Any) -> Any:
    """Return the request of an API at a version; `values`: of fields at any depth, by name."""
    return build_request(module, version, client.sim.broker.topics.get("t").id, values)


def build_request(module: str, version: int, topic_id: bytes, values: Mapping[str, Any]) -> Any:
    """As `request_for`, for any broker whose topic `t` has this id."""
    own = OF_APIS.get(module, {})
    if module == "produce" and version < 3:
        own = {"records": batch(b"a")}
    return _build(BY_MODULE[module].request_class, version, {**VALUES, "topic_id": topic_id, **own, **values})


def _build(cls: type[Any], version: int, values: dict[str, Any]) -> Any:
    schema, chosen = schema_of(cls), {}
    for field in (*schema.fields_at(version), *schema.tagged_at(version)):
        kind: Any = field.kind
        if field.name in values and (values[field.name] == [] or not _holds_structs(kind)):
            value = values[field.name]
            is_list = isinstance(kind, ArrayType)
            if value is None or is_list == isinstance(value, list):
                chosen[field.name] = value
                continue
        if field.name in NULL or (field.name in values and values[field.name] is None):
            continue
        if isinstance(kind, StructType) and version not in field.nullable:
            chosen[field.name] = _build(kind.schema.cls, version, values)
        elif _holds_structs(kind):
            chosen[field.name] = [_build(kind.of.schema.cls, version, values)]
        elif isinstance(kind, ArrayType):
            chosen[field.name] = ["g"] if kind.of.name == "string" else [0]
    return cls(**chosen)


def _holds_structs(kind: Any) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.of, StructType)


def values_in(response: Any, suffix: str) -> Iterator[Any]:
    """Yield the values of all fields, at any depth, whose name ends with `suffix`."""
    if isinstance(response, list):
        for item in response:
            yield from values_in(item, suffix)
    elif hasattr(type(response), "__slots__") and not isinstance(response, (str, bytes, int)):
        for field in schema_of(type(response)).fields:
            value = getattr(response, field.name)
            if field.name.endswith(suffix):
                yield value
            if isinstance(field.kind, (ArrayType, StructType)) and value is not None:
                yield from values_in(value, suffix)


def codes_in(response: Any) -> set[int]:
    """Return all error codes of a response."""
    return set(values_in(response, "error_code"))


def asked_rules(authorizer: Deciding) -> set[tuple[Op, Type]]:
    """Return what the authorizer was asked, without names."""
    return {action[:2] for action in authorizer.asked}
