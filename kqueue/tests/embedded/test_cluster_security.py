"""Clusters whose brokers reach each other by TLS and SASL."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer

import kqueue
from kqueue.api import handler_table
from kqueue.client import Client, ClientOptions
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.config.client_security import ClientSecurity
from kqueue.network.peer_channel import PeerChannel
from kqueue.security.acl_text import parse_acls
from kqueue.security.certificates import Authority, write_private
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.security.operations import AclOperation
from kqueue.tests.api.access_requests import build_request, values_in
from kqueue.tests.security.sasl.token_maker import jwks, signed
from kqueue.tests.waits import HangLimit, eventually
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode

LISTENER = "listener.name.sasl_ssl"


def secured_by(authority: str | Path, keys: str | Path, mechanism: str) -> dict[str, Any]:
    """Settings of a cluster that speaks nothing but SASL_SSL."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.enabled.mechanisms": mechanism,
        f"{LISTENER}.{mechanism.lower()}.sasl.jaas.config": (
            f'{module} required username="broker" password="broker-secret" user_broker="broker-secret" '
            'user_ann="ann-secret" user_bob="bob-secret";'
        ),
        "authorizer.class.name": "standard",
        "super.users": "User:broker;User:ann",
    }


def client(cluster: kqueue.Cluster) -> dict[str, Any]:
    return cluster.client_config("confluent-kafka", mechanism="SCRAM-SHA-512")


def security_of(user: str, cluster: kqueue.Cluster) -> ClientSecurity:
    config = cluster.client_config("confluent-kafka", user=user, mechanism="SCRAM-SHA-512")
    authority = {"ssl.truststore.type": "PEM", "ssl.truststore.location": config.pop("ssl.ca.location")}
    return ClientSecurity.of({**config, **authority})


@pytest.fixture(scope="module")
def cluster() -> Iterator[kqueue.Cluster]:
    settings = {
        "authorizer.class.name": "standard",
        "super.users": "User:ann;User:broker",
        "connections.max.reauth.ms": 3_000,  # so that brokers authenticate again while tests run
    }
    users = {"ann": "ann-secret", "bob": "bob-secret", "eve": "eve-secret", "broker": "broker-secret"}
    with kqueue.Cluster(brokers=3, tls=True, users=users, settings=settings) as cluster:
        yield cluster


def produce(config: dict[str, Any], topic: str, values: list[bytes], **more: object) -> None:
    failed: list[object] = []
    producer = Producer({**config, "acks": "all", **more})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def consume(config: dict[str, Any], topic: str, count: int, **more: object) -> list[bytes]:
    consumer = Consumer({**config, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest", **more})
    consumer.subscribe([topic])
    values: list[bytes] = []
    limit = HangLimit(f"{count} records")
    while len(values) < count:
        limit.check()
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def test_records_outlive_their_leader(cluster: kqueue.Cluster) -> None:
    cluster.create_topic("kept", partitions=1)
    config = client(cluster)
    produce(config, "kept", [b"1", b"2"])
    leader = cluster.leader("kept", 0)
    cluster.kill(leader)
    produce(config, "kept", [b"3"])
    assert consume(config, "kept", 3) == [b"1", b"2", b"3"]
    cluster.start(leader)
    cluster.wait_in_sync()


def test_transactions_span_brokers(cluster: kqueue.Cluster) -> None:
    cluster.create_topic("bank", partitions=6)
    config = client(cluster)
    producer = Producer({**config, "transactional.id": "transfers"})
    producer.init_transactions(30)
    commit, abort = producer.commit_transaction, producer.abort_transaction
    for round, end in enumerate((commit, abort, commit)):
        producer.begin_transaction()
        for partition in range(6):
            producer.produce("bank", f"{round}-{partition}".encode(), partition=partition)
        end(30)
    values = consume(config, "bank", 12)
    assert sorted(values) == sorted(f"{round}-{partition}".encode() for round in (0, 2) for partition in range(6))


def messages_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def is_in_sync(cluster: kqueue.Cluster, topic: str) -> bool:
    try:
        cluster.wait_in_sync(topic, within_s=0.1)
    except TimeoutError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"jaas": "guessed-secret"}, "this broker can't authenticate (user broker by PLAIN"),
        ({"ssl.truststore.location": "other"}, "its certificate is not signed by an authority that is trusted"),
        ({"ssl.keystore.location": "expired"}, "certificate has expired"),
        ({"ssl.keystore.location": "elsewhere"}, "its certificate is not one of 127.0.0.1"),
    ],
    ids=["password", "authority", "expired", "host"],
)
def test_brokers_that_do_not_trust_each_other_copy_nothing(
    change: dict[str, str],
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = Authority.create()
    write_private(tmp_path / "ca.pem", authority.certificate)
    write_private(tmp_path / "broker.pem", authority.issue("CN=broker", hosts=["127.0.0.1"]).pem)
    write_private(tmp_path / "other", Authority.create("CN=other CA").certificate)
    write_private(tmp_path / "expired", authority.issue("CN=broker", hosts=["127.0.0.1"], days=-1).pem)
    write_private(tmp_path / "elsewhere", authority.issue("CN=broker", hosts=["kafka.example"]).pem)
    settings = secured_by(tmp_path / "ca.pem", tmp_path / "broker.pem", "PLAIN")
    jaas = f"{LISTENER}.plain.sasl.jaas.config"
    for name, value in change.items():
        if name == "jaas":
            settings[jaas] = str(settings[jaas]).replace('password="broker-secret"', f'password="{value}"')
        else:
            settings[name] = str(tmp_path / value)
    settings["min.insync.replicas"] = 2
    caplog.set_level(logging.INFO, "kqueue")
    attempts: list[None] = []
    connect = PeerChannel._connect
    monkeypatch.setattr(PeerChannel, "_connect", lambda self: (attempts.append(None), connect(self)))
    with kqueue.Cluster(brokers=2, settings=settings) as cluster:
        cluster.create_topic("kept", partitions=2)
        eventually(lambda: len(messages_of(caplog, reason)) >= 2)
        before = len(attempts)
        eventually(lambda: len(attempts) > before + 4)
        lines = messages_of(caplog, reason)
        assert len(lines) == 2, "one of each broker about the other"
        assert {line.split(" at ")[0] for line in lines} == {"broker 0", "broker 1"}
        eventually(lambda: not is_in_sync(cluster, "kept"))
    assert "-secret" not in caplog.text, "each password here ends so"


OF_BROKERS = [
    ("fetch", 13, {"replica_id": 1}),
    ("write_txn_markers", 1, {}),
    ("add_partitions_to_txn", 4, {}),
    ("initialize_share_group_state", 0, {}),
    ("read_share_group_state", 0, {}),
    ("read_share_group_state_summary", 0, {}),
    ("write_share_group_state", 0, {}),
    ("delete_share_group_state", 0, {}),
    ("find_coordinator", 6, {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]}),
]
"""The requests that only brokers send each other: module of the request, version, and values of
fields.
"""
OF_FOLLOWERS = [("list_offsets", 9, {"replica_id": 1}), ("offset_for_leader_epoch", 4, {"replica_id": 1})]
"""What brokers may ask for about every topic, and clients about those that they may describe."""


def test_every_rule_about_brokers_is_tried_here() -> None:
    ruled = {
        name
        for name in handler_table.handler_names()
        for rule in handler_table.load(name).access or ()
        if rule.operation is AclOperation.CLUSTER_ACTION or "CLUSTER_ACTION" in rule.note
    }
    assert ruled == {module for module, _, _ in (*OF_BROKERS, *OF_FOLLOWERS)}


@pytest.mark.long
def test_brokers_authenticate_by_tokens_which_they_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing token is one line of each broker; a token that ends is followed by another."""
    caplog.set_level(logging.INFO, "kqueue")
    keys, token = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(jwks())
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer"
    settings = {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
        f"{prefix}.jwks.endpoint.url": f"file:{keys}",
        f"{prefix}.token.endpoint.url": f"file:{token}",
        f"{prefix}.clock.skew.seconds": 0,
        "authorizer.class.name": "standard",
        "super.users": "User:brokers;User:ann",
    }

    def renew(lifetime_s: float) -> None:
        now_s = time.time()
        write_private(token, signed({"sub": "brokers", "iat": now_s - 1, "exp": now_s + lifetime_s}))

    sessions_s: list[float] = []
    authenticated = PeerChannel._authenticated

    def record(self: PeerChannel, lifetime_ms: int) -> None:
        sessions_s.append(lifetime_ms / 1000)
        authenticated(self, lifetime_ms)

    monkeypatch.setattr(PeerChannel, "_authenticated", record)
    with kqueue.Cluster(2, users={"ann": "ann-secret"}, settings=settings, min_insync_replicas=2) as cluster:
        cluster.create_topic("kept", partitions=2)
        missing = f"no token from sasl.oauthbearer.token.endpoint.url=file:{token}"
        eventually(lambda: len(messages_of(caplog, missing)) >= 2)
        renew(5)
        config = cluster.client_config("confluent-kafka")
        produce(config, "kept", [b"1", b"2"])
        renew(3600)
        eventually(
            lambda: sum(seconds > 60 for seconds in sessions_s) >= 2, "a session by the new token of each broker"
        )
        produce(config, "kept", [b"3", b"4"])
        cluster.wait_in_sync("kept")
    assert not messages_of(caplog, "its session has expired")
    assert token.read_text() not in caplog.text


Ask = Callable[[str, int, dict[str, object]], set[int]]
"""Sends a request, as `OF_BROKERS` has it; returns the errors in the response."""
REFUSED = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.fixture
def asking(cluster: kqueue.Cluster) -> Iterator[Callable[[str], Ask]]:
    """Connects a user to broker 0, with the client id of a broker."""
    cluster.create_topic("t", replicas={0: [0, 1, 2]})
    topic_id = cluster[0]._server.broker.topics.get("t").id
    deadline = Deadline(30_000)

    def connect(user: str) -> Ask:
        client_id = "kqueue-broker-1-requests"
        options = ClientOptions(
            bootstrap=cluster[0].bootstrap, client_id=client_id, security=security_of(user, cluster)
        )
        connection = Connection(options.addresses[0], options, deadline)
        stack.callback(connection.close)

        def ask(module: str, version: int, values: dict[str, object]) -> set[int]:
            request = build_request(module, version, topic_id, values)
            return set(values_in(connection.call(BY_MODULE[module], version, request, deadline), "error_code"))

        return ask

    with contextlib.ExitStack() as stack:
        yield connect
    cluster[0].topics["t"].delete()


def allow(cluster: kqueue.Cluster, *lines: str) -> None:
    with Client(cluster.bootstrap, security=security_of("ann", cluster)) as client:
        client.cluster.create_acls(parse_acls(lines))


def test_a_client_cannot_pretend_to_be_a_broker(cluster: kqueue.Cluster, asking: Callable[[str], Ask]) -> None:
    allow(cluster, *(f"User:bob allow all {kind}:*" for kind in ("topic", "group", "transactional_id")))
    bob, broker = asking("bob"), asking("broker")
    for module, version, values in OF_BROKERS:
        codes = bob(module, version, values)
        assert codes & REFUSED, (module, codes)
        assert codes <= {*REFUSED, ErrorCode.NONE}, (module, codes)
        assert not broker(module, version, values) & REFUSED, module
    allow(cluster, "User:bob allow cluster_action cluster")
    for request in OF_BROKERS:
        eventually(lambda request=request: not bob(*request) & REFUSED, request)  # type: ignore[misc]


def test_only_brokers_read_offsets_of_topics_they_may_not_describe(
    cluster: kqueue.Cluster, asking: Callable[[str], Ask]
) -> None:
    eve, broker = asking("eve"), asking("broker")
    for request in OF_FOLLOWERS:
        assert eve(*request) & REFUSED, request
        assert not broker(*request) & REFUSED, request
    allow(cluster, "User:eve allow cluster_action cluster")
    for request in OF_FOLLOWERS:
        eventually(lambda request=request: not eve(*request) & REFUSED, request)  # type: ignore[misc]


@pytest.mark.long
def test_share_groups_share_records(cluster: kqueue.Cluster) -> None:
    cluster.create_topic("shared", partitions=3)
    config = client(cluster)
    consumer = ShareConsumer({**config, "group.id": "sharers"})
    consumer.subscribe(["shared"])
    producer = Producer({**config, "acks": "all"})
    values: set[bytes] = set()
    sent: set[bytes] = set()
    limit = HangLimit("ten records")
    while len(values) < 10:
        limit.check()
        sent.add(b"%d" % len(sent))
        producer.produce("shared", b"%d" % (len(sent) - 1))
        assert producer.flush(60) == 0
        values |= {message.value() for message in consumer.poll(0.5) if message.error() is None}
    consumer.close()
    assert len(values) >= 10
    assert values <= sent
