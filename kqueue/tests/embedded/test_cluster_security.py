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
from kqueue.client import Client, ClientOptions
from kqueue.client.calls.acls import AclEntry
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.config.client_security import ClientSecurity
from kqueue.security.acl_text import parse_acls
from kqueue.security.certificates import Authority, write_private
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.tests.api.access_requests import build_request, values_in
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
    users = {"ann": "ann-secret", "bob": "bob-secret", "broker": "broker-secret"}
    with kqueue.Cluster(brokers=3, tls=True, users=users, settings=settings) as cluster:
        yield cluster


def produce(config: dict[str, Any], topic: str, values: list[bytes], **more: object) -> None:
    failed: list[object] = []
    producer = Producer({**config, "acks": "all", **more})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failed == []


def consume(config: dict[str, Any], topic: str, count: int, **more: object) -> list[bytes]:
    consumer = Consumer({**config, "group.id": f"{topic}-readers", "auto.offset.reset": "earliest", **more})
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
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
    change: dict[str, str], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
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
    with kqueue.Cluster(brokers=2, settings=settings) as cluster:
        cluster.create_topic("kept", partitions=2)
        deadline = time.monotonic() + 20
        while len(messages_of(caplog, reason)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.5)
        lines = messages_of(caplog, reason)
        assert len(lines) == 2, "one of each broker about the other"
        assert {line.split(" at ")[0] for line in lines} == {"broker 0", "broker 1"}
        with pytest.raises(TimeoutError):
            cluster.wait_in_sync("kept", within_s=0.5)
    assert "secret" not in caplog.text


OF_BROKERS = [
    ("fetch", 13, {"replica_id": 1}),
    ("write_txn_markers", 1, {}),
    ("add_partitions_to_txn", 4, {}),
    ("initialize_share_group_state", 0, {}),
    ("read_share_group_state", 0, {}),
    ("read_share_group_state_summary", 0, {}),
    ("write_share_group_state", 0, {}),
    ("delete_share_group_state", 0, {}),
]
"""What only brokers ask each other for: module of the request, version, and values of fields."""


def test_a_client_cannot_pretend_to_be_a_broker(cluster: kqueue.Cluster) -> None:
    cluster.create_topic("t", partitions=1)

    def connect(user: str) -> Callable[[str, int, dict[str, object]], set[int]]:
        options = ClientOptions(
            bootstrap=cluster[0].bootstrap,
            client_id="kqueue-broker-1-requests",
            security=security_of(user, cluster),
        )
        deadline = Deadline(30_000)
        connection = Connection(options.addresses[0], options, deadline)
        stack.callback(connection.close)
        topic_id = cluster[0]._server.broker.topics.get("t").id

        def ask(module: str, version: int, values: dict[str, object]) -> set[int]:
            request = build_request(module, version, topic_id, values)
            return set(values_in(connection.call(BY_MODULE[module], version, request, deadline), "error_code"))

        return ask

    with contextlib.ExitStack() as stack:
        with Client(
            cluster.bootstrap,
            security=security_of("ann", cluster),
        ) as client:
            bindings = parse_acls([f"User:bob allow all {kind}:*" for kind in ("topic", "group", "transactional_id")])
            client.create_acls([AclEntry(*binding) for binding in bindings])
        bob, broker = connect("bob"), connect("broker")
        refused = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        for module, version, values in OF_BROKERS:
            codes = bob(module, version, values)
            assert codes & refused, (module, codes)
            assert codes <= {*refused, ErrorCode.NONE}, (module, codes)
            assert not broker(module, version, values) & refused, module
        with Client(cluster.bootstrap, security=security_of("ann", cluster)) as client:
            acls = parse_acls(["User:bob allow cluster_action cluster"])
            client.create_acls([AclEntry(*binding) for binding in acls])
        deadline_s = time.monotonic() + 10
        for module, version, values in OF_BROKERS:
            while bob(module, version, values) & refused and time.monotonic() < deadline_s:
                time.sleep(0.05)
            assert not bob(module, version, values) & refused, module


def test_share_groups_share_records(cluster: kqueue.Cluster) -> None:
    cluster.create_topic("shared", partitions=3)
    config = client(cluster)
    consumer = ShareConsumer({**config, "group.id": "sharers"})
    consumer.subscribe(["shared"])
    values: set[bytes] = set()
    sent: set[bytes] = set()
    deadline = time.monotonic() + 40
    while len(values) < 10 and time.monotonic() < deadline:
        sent.add(b"%d" % len(sent))
        produce(config, "shared", [b"%d" % (len(sent) - 1)])
        values |= {message.value() for message in consumer.poll(0.5) if message.error() is None}
    consumer.close()
    assert len(values) >= 10
    assert values <= sent
