"""The same ACLs in Kafka and in kqueue: each rule of each API denies with the same errors.

Without SASL every client is `User:ANONYMOUS`: those that are allowed a part come from another
loopback address, which ACLs tell apart.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from compat_tests.kafka.node import NODE_ID, Kafka
from compat_tests.kafka.serving import serving
from compat_tests.waits import HangLimit, look_until
from kqueue.api.access import Rule
from kqueue.schema import decode, encode
from kqueue.security.operations import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType
from kqueue.tests.api.access_requests import (
    BY_ID,
    NAMES,
    ROWS,
    RULES,
    Row,
    build_request,
    denial_of,
    values_in,
)
from kqueue.tests.api.harness import batch
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.headers import read_response_header, request_header
from kqueue.wire.messages import (
    api_versions,
    consumer_group_heartbeat,
    create_acls,
    create_topics,
    delete_acls,
    describe_acls,
    metadata,
    share_group_heartbeat,
    streams_group_heartbeat,
)

WAIT_S = 60
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that both allow: no transaction times out while requests are sent."""
BY_ID_SINCE = {"fetch": 13, "metadata": 12, "offset_fetch": 10}
"""The first versions with ids of topics."""
FIRST_VERSIONS = {"produce": 3}
"""Kafka announces versions from 0 on, for the sake of old clients, and does not serve them."""
ADMIN, CLIENT = "127.0.0.1", "127.0.0.2"
ANONYMOUS = "User:ANONYMOUS"
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
}


class Asker:
    """A connection from one of the loopback addresses."""

    def __init__(self, bootstrap: str, host: str) -> None:
        address, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((address, int(port)), WAIT_S, source_address=(host, 0))
        self._stream = self._socket.makefile("rb")

    def ask(self, request: Any, version: int) -> Any:
        """The response. None: the connection was closed, which ends this object."""
        api = BY_MODULE[type(request).__module__.rpartition(".")[2]]
        frame = request_header(api.key, version, 1, "t") + encode(request, version)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = self._stream.read(4)
        if not size:
            return None
        answer = memoryview(self._stream.read(int.from_bytes(size, "big")))
        return decode(api.response_class, version, answer[read_response_header(answer, api.key, version)[1] :])

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Acl(NamedTuple):
    """An entry of a literal pattern."""

    operation: int
    resource_type: int
    name: str
    host: str
    permission: AclPermission = AclPermission.ALLOW
    principal: str = ANONYMOUS


class World:
    """A broker with topic `t`, group `g` and transactional id `tx`, whose administrator may do
    everything.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = Asker(bootstrap, ADMIN)
        served = self.admin.ask(api_versions.ApiVersionsRequest(), 0)
        self.first_versions = {row.api_key: row.min_version for row in served.api_keys}
        self.admin.ask(
            create_topics.CreateTopicsRequest(
                topics=[create_topics.CreatableTopic(name="t", num_partitions=2, replication_factor=1)],
                timeout_ms=10_000,
            ),
            7,
        )
        self.topic_id = self._topic_id()
        producer = self._until_settled("init_producer_id", 4, {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS})
        self._producer_id, self._producer_epoch = producer.producer_id, producer.producer_epoch
        self._until_settled("offset_commit", 8, {"member_id": "", "generation_id_or_member_epoch": -1})
        self.create(*(everything(kind, ADMIN) for kind in TYPES))

    def _topic_id(self) -> bytes:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")])
        [topic] = look_until(
            lambda: self.admin.ask(request, 12).topics,
            lambda topics: topics[0].error_code == 0 and all(one.leader_id >= 0 for one in topics[0].partitions),
            "leaders of the topic",
        )
        return bytes(topic.topic_id)

    def request(self, module: str, version: int, values: dict[str, Any]) -> Any:
        """As `build_request`, about the topic and the producer of this broker: a kqueue in this
        process has no producer ids that another one had.
        """
        if module != "init_producer_id":
            own = {"producer_id": self._producer_id, "epoch": self._producer_epoch}
            records = batch(b"a", **own, base_sequence=0, transactional=True)
            ids = dict.fromkeys(("producer_id", "v3_and_below_producer_id"), self._producer_id)
            values = {**ids, "records": records, **values}
        return build_request(module, version, self.topic_id, values)

    def _until_settled(self, module: str, version: int, values: dict[str, Any]) -> Any:
        """Send a request until it succeeds, and return the response."""
        key_type = 1 if module == "init_producer_id" else 0
        finding = build_request(
            "find_coordinator", 3, self.topic_id, {"key": "tx" if key_type else "g", "key_type": key_type}
        )

        def asked() -> Any:
            self.admin.ask(finding, 3)
            return self.admin.ask(build_request(module, version, self.topic_id, values), version)

        return look_until(asked, lambda response: {*values_in(response, "error_code")} == {0}, module)

    def create(self, *acls: Acl) -> None:
        """Create entries, and wait until they decide."""
        creations = [
            create_acls.AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=PatternType.LITERAL,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
        response = self.admin.ask(create_acls.CreateAclsRequest(creations=creations), 3)
        assert {result.error_code for result in response.results} == {0}, response
        self._until_described(lambda described: {*acls} <= described)

    def clear(self) -> None:
        """Delete the entries of the client's address."""
        every = delete_acls.DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=CLIENT,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        response = self.admin.ask(delete_acls.DeleteAclsRequest(filters=[every]), 3)
        assert {result.error_code for result in response.filter_results} == {0}, response
        self._until_described(lambda described: all(acl.host != CLIENT for acl in described))

    def _until_described(self, holds: Callable[[set[Acl]], bool]) -> None:
        """Wait until it holds of the entries by which the broker decides."""
        every = describe_acls.DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )

        def described() -> set[Acl]:
            response = self.admin.ask(every, 3)
            assert response.error_code == 0, response
            return {
                Acl(
                    acl.operation,
                    pattern.resource_type,
                    pattern.resource_name,
                    acl.host,
                    AclPermission(acl.permission_type),
                    acl.principal,
                )
                for pattern in response.resources
                for acl in pattern.acls
            }

        look_until(described, holds, "a change of ACLs that decides")

    def codes(self, module: str, version: int, values: dict[str, Any]) -> set[str]:
        """The error codes in what the client is answered."""
        client = Asker(self.bootstrap, CLIENT)
        try:
            response = client.ask(self.request(module, version, values), version)
        finally:
            client.close()
        if response is None:
            return {"closed"}
        return {ErrorCode(code).name for code in values_in(response, "error_code")} - {"NONE"}


def everything(kind: ResourceType, host: str) -> Acl:
    return Acl(AclOperation.ALL, kind, NAMES[kind] if kind is ResourceType.CLUSTER else WILDCARD, host)


@pytest.fixture(scope="module")
def worlds(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    """A Kafka and a kqueue, with the same entries."""
    with ExitStack() as stack:
        node = Kafka(tmp_path_factory.mktemp("access") / "kafka", settings=SETTINGS).copy_from(formatted)
        stack.enter_context(node)
        own = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        broker = stack.enter_context(serving(tmp_path_factory.mktemp("kqueue"), node_id=NODE_ID, **own))
        yield World(node.bootstrap), World(broker.bootstrap)


@contextmanager
def granted(worlds: tuple[World, World], *acls: Acl) -> Iterator[None]:
    for world in worlds:
        world.create(*acls)
    try:
        yield
    finally:
        for world in worlds:
            world.clear()


def name_of(value: object) -> str:
    return value.api.name if isinstance(value, Row) else str(getattr(value, "operation", value))


def hidden(codes: set[str], row: Row, version: int) -> set[str]:
    """What kqueue answers for `codes` of Kafka: it says of a topic that the client knows by its id,
    but may not describe, that its id is unknown.
    """
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
    if denied in codes and version >= BY_ID_SINCE.get(row.api.module_name, version + 1):
        return codes - {denied} | {ErrorCode.UNKNOWN_TOPIC_ID.name}
    return codes


@pytest.mark.parametrize("row", [row for row in ROWS if row.access], ids=name_of)
def test_a_client_that_may_nothing_gets_kafkas_errors(worlds: tuple[World, World], row: Row) -> None:
    module = row.api.module_name
    first = max(row.versions[0], worlds[0].first_versions[row.api.key], FIRST_VERSIONS.get(module, 0))
    for version in sorted({first, row.versions[1]}):
        kafkas, ours = (world.codes(module, version, {}) for world in worlds)
        assert ours == hidden(kafkas, row, version), version


@pytest.mark.parametrize(("row", "rule"), RULES, ids=name_of)
def test_each_rule_denies_as_in_kafka(worlds: tuple[World, World], row: Row, rule: Rule) -> None:
    denial = denial_of(row, rule)
    denied = [
        Acl(operation, kind, NAMES[kind] if kind is ResourceType.CLUSTER else WILDCARD, CLIENT, AclPermission.DENY)
        for operation, kind in denial.denied
    ]
    with granted(worlds, *(everything(kind, CLIENT) for kind in TYPES), *denied):
        kafkas, ours = (world.codes(row.api.module_name, denial.version, denial.values) for world in worlds)
    if denial.key in BY_ID:
        kafkas = hidden(kafkas, row, denial.version)
    assert ours == kafkas


# --- groups and transactions with topics that the client may not describe


def until_joined(world: World, request: Any, version: int) -> None:
    """Send a joining heartbeat until the group's coordinator takes it."""
    finding = build_request("find_coordinator", 3, world.topic_id, {"key": request.group_id})

    def asked() -> Any:
        world.admin.ask(finding, 3)
        return world.admin.ask(request, version)

    look_until(asked, lambda response: response.error_code == 0, f"{request.group_id} is joined")


MEMBER = "00000000-0000-0000-0000-000000000001"


def joining(group: str) -> tuple[Any, int]:
    """The heartbeat by which a member of group `c` or `s` joins; and its version."""
    if group == "c":
        return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id=MEMBER,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ), 1
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="s", member_id=MEMBER, subscribed_topic_names=["t"]
    ), 1


def join_all(world: World) -> None:
    """Let a member join a group of each new protocol, and put `t` into the transaction of `tx`."""
    for group in ("c", "s"):
        until_joined(world, *joining(group))
    topology = streams_group_heartbeat.Topology(
        subtopologies=[streams_group_heartbeat.Subtopology(subtopology_id="0", source_topics=["t"])]
    )
    streams = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="st",
        member_id=MEMBER,
        rebalance_timeout_ms=60_000,
        process_id="p",
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    until_joined(world, streams, 0)
    values = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS}
    made = world.admin.ask(build_request("init_producer_id", 4, world.topic_id, values), 4)
    added = build_request(
        "add_partitions_to_txn",
        3,
        world.topic_id,
        {"v3_and_below_producer_id": made.producer_id, "v3_and_below_producer_epoch": made.producer_epoch},
    )
    assert set(values_in(world.admin.ask(added, 3), "error_code")) == {0}


def assigned(world: World) -> None:
    """Wait until the members have partitions of `t`: Kafka looks at those."""
    for module, version, group in (("consumer_group_describe", 1, "c"), ("share_group_describe", 1, "s")):
        describing = build_request(module, version, world.topic_id, {"group_ids": [group]})
        limit = HangLimit(f"{module} names the topic")
        while "t" not in values_in(described := world.admin.ask(describing, version), "topic_name"):
            limit.check(described)
            until_joined(world, *joining(group))


DESCRIBED = [
    ("consumer_group_describe", 1, {"group_ids": ["c"]}),
    ("share_group_describe", 1, {"group_ids": ["s"]}),
    ("streams_group_describe", 0, {"group_ids": ["st"]}),
    ("describe_transactions", 0, {}),
    ("describe_share_group_offsets", 1, {"group_id": "s"}),
    ("alter_share_group_offsets", 0, {"group_id": "empty"}),
    ("delete_share_group_offsets", 0, {"group_id": "empty"}),
    ("consumer_group_heartbeat", 1, {"group_id": "new", "rebalance_timeout_ms": 60_000, "topic_partitions": []}),
    ("share_group_heartbeat", 1, {"group_id": "new"}),
    (
        "streams_group_heartbeat",
        0,
        {"group_id": "new", "rebalance_timeout_ms": 60_000, "source_topics": ["t"], "repartition_sink_topics": []},
    ),
]


@pytest.fixture(scope="module")
def joined(worlds: tuple[World, World]) -> tuple[World, World]:
    """Both brokers, with groups that read `t` and a transaction with it."""
    for world in worlds:
        join_all(world)
        assigned(world)
    return worlds


def shown(world: World, module: str, version: int, values: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The error codes of an answer, and the topics that it names."""
    client = Asker(world.bootstrap, CLIENT)
    try:
        response = client.ask(build_request(module, version, world.topic_id, values), version)
    finally:
        client.close()
    codes = {ErrorCode(code).name for code in values_in(response, "error_code")} - {"NONE"}
    names = {name for field in ("topic_name", "topic") for name in values_in(response, field) if isinstance(name, str)}
    return codes, names


@pytest.mark.parametrize(("module", "version", "values"), DESCRIBED, ids=lambda value: str(value)[:30])
def test_answers_about_a_hidden_topic_equal_kafkas(
    joined: tuple[World, World], module: str, version: int, values: dict[str, Any]
) -> None:
    denied = [
        Acl(operation, ResourceType.TOPIC, WILDCARD, CLIENT, AclPermission.DENY)
        for operation in (AclOperation.DESCRIBE, AclOperation.READ)
    ]
    with granted(joined, *(everything(kind, CLIENT) for kind in TYPES), *denied):
        kafkas, ours = (shown(world, module, version, values) for world in joined)
    assert ours == kafkas
