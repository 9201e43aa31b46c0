"""A well-formed request for every API, derived from its schema: about topic `t`, group `g` and
transactional id `tx`; and authorizers that allow a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kqueue.api.access import Rule
from kqueue.broker.topics import OFFSETS_TOPIC
from kqueue.schema.field_types import ArrayType, StructType
from kqueue.schema.structs import schema_of
from kqueue.security.authorizer import Action, Client
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode

NAMES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.TRANSACTIONAL_ID: "tx",
    ResourceType.CLUSTER: CLUSTER_NAME,
}
AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
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
    "replicas": [0],
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


class Deciding:
    """Allows what `allows` says, and keeps what it was asked; of anything too."""

    def __init__(self, allows: Callable[[Action], bool]) -> None:
        self.allows = allows
        self.asked: list[Action] = []

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        self.asked += actions
        return [self.allows(action) for action in actions]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        return self.allows(Action(operation, resource_type, "*"))


def nothing(action: Action) -> bool:
    return False


def all_but(*denied: tuple[AclOperation, ResourceType]) -> Callable[[Action], bool]:
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
    topic_id = client.sim.broker.topics.get("t").id
    own = OF_APIS.get(module, {})
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


def asked_rules(authorizer: Deciding) -> set[tuple[AclOperation, ResourceType]]:
    """Return what the authorizer was asked, without names."""
    return {action[:2] for action in authorizer.asked}
