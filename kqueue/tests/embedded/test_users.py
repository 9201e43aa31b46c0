"""Brokers with users: stock clients authenticate with each mechanism, and again while they work."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

import kqueue
from kqueue.base.errors import InvalidRequest
from kqueue.embedded.client_configs import CLIENTS
from kqueue.embedded.request_log import RecordedRequest
from kqueue.embedded.users import MODULES
from kqueue.security.jaas import PLAIN_MODULE
from kqueue.tests.embedded.test_client_configs import FAILURES, ROUND_TRIPS
from kqueue.tests.thorough import corners
from kqueue.tests.waits import HangLimit

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
USERS = {"ann": 's3cr=et"\\,', "bob": "geheim"}


@pytest.mark.parametrize(
    ("client", "mechanism"),
    corners(
        list(itertools.product(CLIENTS, MODULES)),
        *((client, "SCRAM-SHA-256") for client in CLIENTS),
        *(("confluent-kafka", mechanism) for mechanism in MODULES),
    ),
)
def test_a_client_of_each_library_authenticates(client: str, mechanism: str) -> None:
    with kqueue.Broker(users=USERS) as broker:
        broker.create_topic("t")
        config = broker.client_config(client, mechanism=mechanism)
        assert ROUND_TRIPS[client](config, 20) == b"hello"
        assert broker.requests(api="SaslHandshake")[0].body.mechanism == mechanism


def test_users_authenticate_over_tls() -> None:
    with kqueue.Broker(users=USERS, tls=True) as broker:
        broker.create_topic("t")
        config = broker.client_config("confluent-kafka", user="bob", mechanism="SCRAM-SHA-512")
        assert ROUND_TRIPS["confluent-kafka"](config, 20) == b"hello"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", corners(["PLAIN", "SCRAM-SHA-256"], "SCRAM-SHA-256"))
def test_wrong_passwords_and_unknown_users_are_refused(client, mechanism, caplog) -> None:
    with kqueue.Broker(users=USERS) as broker:
        broker.create_topic("t")
        for user, password in (("ann", "a guess"), ("eve", "geheim")):
            config = broker.client_config(client, user=user, password=password, mechanism=mechanism)
            with pytest.raises(FAILURES):
                ROUND_TRIPS[client](config, 2)
        assert broker.topics["t"].end_offsets[0] == 0
        log = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("kqueue"))
        assert f"invalid credentials with SASL mechanism {mechanism}" in log
        assert not any(secret in log for secret in (*USERS.values(), "a guess"))
        assert not broker.requests(api="Produce")


def test_no_request_log_keeps_a_password() -> None:
    with kqueue.Broker(users={"ann": "secret"}) as broker:
        broker.create_topic("t")
        ROUND_TRIPS["kafka-python"](broker.client_config("kafka-python"), 20)
        [first, *_] = broker.requests(api="SaslAuthenticate")
        assert first.body is None
        assert not any(b"secret" in bytes(one._frame) for one in broker.requests if not isinstance(one._frame, int))
        assert "secret" not in repr(broker.requests) + repr(broker) + repr(vars(first.__class__))


def test_a_restart_keeps_the_users() -> None:
    with kqueue.Broker(users=USERS) as broker:
        broker.create_topic("t")
        broker.restart()
        assert ROUND_TRIPS["confluent-kafka"](broker.client_config("confluent-kafka"), 20) == b"hello"


def produce_with_confluent(config: dict[str, Any], is_done: Callable[[], bool]) -> int:
    failed: list[object] = []
    producer = Producer(config | {"log_level": 0})
    count = 0
    while not is_done():
        producer.produce("t", b"%d" % count, on_delivery=lambda error, message: failed.append(error) if error else None)
        producer.poll(0.01)
        count += 1
    assert producer.flush(60) == 0
    assert failed == []
    return count


def produce_with_kafka_python(config: dict[str, Any], is_done: Callable[[], bool]) -> int:
    count = 0
    with contextlib.closing(KafkaProducer(**config, retries=5)) as producer:
        while not is_done():
            producer.send("t", b"%d" % count).get(60)
            count += 1
    return count


def produce_with_aiokafka(config: dict[str, Any], is_done: Callable[[], bool]) -> int:
    async def work() -> int:
        count = 0
        async with AIOKafkaProducer(**config) as producer:
            while not is_done():
                await producer.send_and_wait("t", b"%d" % count)
                count += 1
        return count

    return asyncio.run(work())


PRODUCE = {
    "confluent-kafka": produce_with_confluent,
    "kafka-python": produce_with_kafka_python,
    "aiokafka": produce_with_aiokafka,
}


@pytest.mark.long
@pytest.mark.parametrize("client", corners(CLIENTS, "aiokafka"))
def test_producers_outlive_the_end_of_their_sessions(client: str, caplog: pytest.LogCaptureFixture) -> None:
    """Clients that re-authenticate keep their connection; the others connect again."""
    caplog.set_level(logging.INFO, logger="kqueue")
    with kqueue.Broker(users=USERS, settings={"connections.max.reauth.ms": 3000}) as broker:
        broker.create_topic("t")
        config = broker.client_config(client, mechanism="SCRAM-SHA-256")
        limit = HangLimit("the end of a session")

        def has_ended_a_session() -> bool:
            limit.check()
            if client == "aiokafka":
                return "its session has expired" in caplog.text
            return any(times > 1 for times in Counter(one.address for one in handshakes()).values())

        def handshakes() -> Sequence[RecordedRequest]:
            return broker.requests(api="SaslHandshake")

        began = PRODUCE[client](config, has_ended_a_session)
        records = began + PRODUCE[client](config, lambda: bool(broker.topics["t"].end_offsets[0] > began + 10))
        assert broker.topics["t"].end_offsets[0] == records


@pytest.mark.long
def test_a_broker_without_security_imports_nothing_of_it() -> None:
    program = """
import sys, kqueue
from kafka import KafkaProducer

def check(**folders):
    names = {f"kqueue.{folder}.{name}" for folder, modules in folders.items() for name in modules.split()}
    names |= {f"kqueue.broker.access.{name}" for name in folders["access"].split()}
    names |= {"joserfc", "scramp", "cryptography"}
    assert names.isdisjoint(sys.modules), sorted(names.intersection(sys.modules))

with kqueue.Broker() as broker:
    check(access="acls", security="acls")  # which handlers import, as ApiVersions does all of them
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("t", b"x").get(60)
    producer.close()
    check(
        access="client_quotas delegation_tokens salt_secret scram_users",
        network="jwks peer_security quota_gate sasl_gate tls_context tls_handshakes tls_socket",
        security="acl_text certificates jaas made_up_credentials principal_mapping quotas sasl.plain sasl.scram "
        "scram_credentials scram_validation standard_authorizer tokens",
    )
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_listeners_of_their_own_names_have_the_users() -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
    }
    with kqueue.Broker(users={"ann": "x"}, settings=settings) as broker:
        assert broker.client_config("confluent-kafka")["security.protocol"] == "SASL_PLAINTEXT"


def test_login_modules_of_a_listener_cannot_be_altered_and_are_not_shown() -> None:
    listeners = {"listeners": "IN://127.0.0.1:0", "listener.security.protocol.map": "IN:SASL_PLAINTEXT"}
    with kqueue.Broker(users={"ann": "secret"}, settings=listeners) as broker:
        with pytest.raises(InvalidRequest, match="can't be changed at run time") as raised:
            broker.alter_config(listener_name_in_plain_sasl_jaas_config=f'{PLAIN_MODULE} required user_eve="pa55";')
        assert "pa55" not in str(raised.value)
