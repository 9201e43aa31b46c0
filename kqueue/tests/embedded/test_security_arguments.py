"""Tests of `kqueue.Cluster(tls=..., users=..., acls=...)`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

import kqueue
from kqueue.client import Client
from kqueue.embedded.client_configs import CLIENTS
from kqueue.security.acl_text import parse_acls
from kqueue.testing import faults
from kqueue.tests.embedded.test_client_configs import ROUND_TRIPS
from kqueue.tests.embedded.test_cluster_security import security_of
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
USERS = {"ann": "ann-secret", "bob": "bob-secret"}
ANN = ["User:ann allow all topic:t", "User:ann allow all group:g", "User:ann allow alter cluster"]


@pytest.fixture(scope="module")
def secured() -> Iterator[kqueue.Cluster]:
    with kqueue.Cluster(tls=True, users=USERS, acls=ANN, min_insync_replicas=3) as cluster:
        cluster.create_topic("t", partitions=3)
        yield cluster


def send(config: dict[str, Any], partitions: int = 1) -> list[str | None]:
    """Send a record to each partition of t, for all replicas; return the names of the errors."""
    outcomes: list[str | None] = []
    producer = Producer({**config, "acks": "all", "log_level": 0, "message.timeout.ms": 20_000})
    for partition in range(partitions):
        producer.produce(
            "t",
            b"x",
            partition=partition,
            on_delivery=lambda error, _: outcomes.append(None if error is None else error.name()),
        )
    assert producer.flush(25) == 0
    return outcomes


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_each_library_uses_a_secured_cluster(client: str, secured: kqueue.Cluster) -> None:
    config = secured.client_config(client, mechanism="SCRAM-SHA-256")
    assert config[{"confluent-kafka": "bootstrap.servers"}.get(client, "bootstrap_servers")] == secured.bootstrap
    assert ROUND_TRIPS[client](config, 20) == b"hello"


@for_each(
    "arguments, user",
    [
        ({"tls": True}, None),
        ({"users": USERS}, "bob"),
        ({"tls": True, "acls": ["User:CN=ann allow all topic:t"]}, "ann"),
        ({"acls": ["User:ANONYMOUS allow all topic:t"]}, None),
    ],
)
def test_brokers_replicate_with_each_of_the_arguments(arguments: dict[str, Any], user: str | None) -> None:
    with kqueue.Cluster(min_insync_replicas=3, **arguments) as cluster:
        cluster.create_topic("t", partitions=3)
        assert send(cluster.client_config("confluent-kafka", user=user), 3) == [None] * 3
        if "acls" in arguments and user:
            other = cluster.client_config("confluent-kafka", user="bob")
            assert send(other) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_reset_restores_the_acls(secured: kqueue.Cluster) -> None:
    config = secured.client_config("confluent-kafka")
    with Client(secured.bootstrap, security=security_of("ann", secured)) as client:
        client.cluster.create_acls(parse_acls(["User:bob allow write topic:t"]))
    bob = secured.client_config("confluent-kafka", user="bob")
    eventually(lambda: send(bob) == [None])
    secured.reset()
    secured.create_topic("t", partitions=3)
    assert send(bob) == ["TOPIC_AUTHORIZATION_FAILED"]
    assert send(config) == [None]


def test_each_broker_has_a_certificate_of_its_own(secured: kqueue.Cluster) -> None:
    config = {"log_level": 0, "error_cb": lambda _: None}
    with faults(secured[1]) as injected:
        injected.expire_certificate()
        for broker, accepts in ((0, True), (1, False)):
            admin = AdminClient(secured[broker].client_config("confluent-kafka") | config)
            with contextlib.nullcontext() if accepts else pytest.raises(KafkaException):
                admin.list_topics(timeout=30 if accepts else 1)


def test_super_users_are_added_to_those_that_are_set() -> None:
    with kqueue.Cluster(1, users=USERS, acls=ANN, settings={"super.users": "User:bob"}) as cluster:
        assert cluster[0]._config["super.users"] == "User:kqueue-broker;User:bob"


def test_a_setting_goes_over_what_the_arguments_mean() -> None:
    listeners = "SASL_PLAINTEXT://127.0.0.1:0"
    with kqueue.Cluster(
        2, tls=True, users=USERS, listeners=listeners, sasl_mechanism_inter_broker_protocol="PLAIN"
    ) as cluster:
        cluster.create_topic("t")
        assert cluster.client_config("confluent-kafka")["security.protocol"] == "SASL_PLAINTEXT"
        assert send(cluster.client_config("confluent-kafka")) == [None]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="kqueue-broker is the name of the brokers themselves"):
        kqueue.Cluster(users={"kqueue-broker": "x"})
